"""Draws how many utterances have which grade of agreement with the baseline, for every case."""

from journal import panels
from style import (
    BAR,
    BLUE,
    HATCHED,
    HATCHES,
    ORANGE,
    SKY,
    VERMILION,
    YELLOW,
    legend,
    main,
    name_axis,
    name_panel,
    name_rows,
    new_figure,
    note_behind,
    text_on,
)

DIGIT, AXIS = 0.085, 0.55  # inches of a digit with its margin; length of the axis / width of the figure
COLOURS = {
    "bitwise": BLUE,
    "exact": SKY,
    "rounding": YELLOW,
    "text": ORANGE,
    "different": VERMILION,
}


def draw(cases, width):
    cases = [case for case in cases if grades_of(case)]
    if not cases:
        return None
    groups = panels(cases)
    figure, axes = new_figure(len(groups), 1, width, [BAR * len(g) + 0.2 for g in groups.values()])
    handles = {}
    for cell, (title, group) in zip(axes[:, 0], groups.items()):
        for row, case in enumerate(group):
            draw_case(cell, row, case, handles, width)
        marks = {True: " ~", False: ""}
        left = name_rows(cell, [f"{c.decoder}{marks[c.is_approximate]}, b {c.batch}" for c in group])
        cell.set_xlim(0, 100)
        name_panel(cell, title, width, left)
    name_axis(axes[-1, 0], "share of the utterances (%); right: their number; ~: approximate", width, left)
    grades = [grade for grade in COLOURS if grade in handles]
    legend(figure, [handles[grade] for grade in grades], grades, width)
    return figure


def grades_of(case):
    """Returns {grade: utterances}; empty for the baseline itself and for a case that was compared with nothing."""
    return case.worst_run["exactness"].get("grades", {}) if case.worst_run else {}


def draw_case(cell, row, case, handles, width):
    grades = grades_of(case)
    total = sum(grades.values())
    note_behind(cell, row, f"{total}")
    left = 0
    for grade, colour in COLOURS.items():
        count = grades.get(grade, 0)
        if not count:
            continue
        share = 100 * count / total
        hatch = HATCHES[list(COLOURS).index(grade)]
        bars = cell.barh(row, share, 0.78, left=left, color=colour, hatch=hatch, **HATCHED)
        handles.setdefault(grade, bars)
        if DIGIT * len(f"{count}") < AXIS * width * share / 100:
            cell.text(
                left + share / 2,
                row,
                f"{count}",
                ha="center",
                va="center",
                fontsize=7.5,
                color=text_on(colour),
                bbox={"facecolor": colour, "edgecolor": "none", "pad": 1},
            )
        left += share


if __name__ == "__main__":
    main(__doc__, draw)
