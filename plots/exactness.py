"""Draws how many utterances have which grade of agreement with the baseline, for every case."""

from style import (
    BLUE,
    HATCHED,
    HATCHES,
    ORANGE,
    SKY,
    VERMILION,
    YELLOW,
    bars_by_panel,
    legend,
    main,
    name_axis,
    note_behind,
    write_in_bar,
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
    handles = {}
    figure, lowest, left = bars_by_panel(cases, width, lambda cell, row, case: draw_case(cell, row, case, handles, width), name_of)
    name_axis(lowest, "share of the utterances (%); right: their number; ~: approximate", width, left)
    grades = [grade for grade in COLOURS if grade in handles]
    legend(figure, [handles[grade] for grade in grades], grades, width)
    return figure


def name_of(case):
    return f"{case.decoder}{' ~' if case.is_approximate else ''}, b {case.batch}"


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
            write_in_bar(cell, left + share / 2, row, f"{count}", colour)
        left += share


if __name__ == "__main__":
    main(__doc__, draw)
