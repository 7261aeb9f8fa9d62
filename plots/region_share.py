"""Draws the share of each region in a pass, for every case."""

from statistics import stdev

from journal import REGIONS, panels
from style import (
    BAR,
    BLUE,
    GREEN,
    GREY,
    HATCHED,
    ORANGE,
    PURPLE,
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

COLOURS = dict(zip(REGIONS, [YELLOW, GREY, SKY, BLUE, ORANGE, GREEN, PURPLE, VERMILION]))

HATCHING = dict(zip(REGIONS, ["\\\\\\\\", "xxxx", "....", "", "////", "||||", "----", "++++"]))  # the encoder's bar is plain


def part_style(region):
    """Returns colour and hatching of a region."""
    return {"facecolor": COLOURS[region], "hatch": HATCHING[region], **HATCHED}


def draw(cases, width):
    cases = [case for case in cases if not case.is_overlapped and sum(case.region_seconds().values()) > 0]
    if not cases:
        return None
    groups = panels(cases)
    figure, axes = new_figure(len(groups), 1, width, [BAR * len(g) + 0.2 for g in groups.values()])
    handles = {}
    for cell, (title, group) in zip(axes[:, 0], groups.items()):
        for row, case in enumerate(group):
            draw_case(cell, row, case, handles)
        left = name_rows(cell, [f"{case.decoder}, b {case.batch}" for case in group])
        cell.set_xlim(0, 100)
        name_panel(cell, title, width, left)
    name_axis(axes[-1, 0], "share of the time of a pass (%); right: seconds a pass", width, left)
    regions = [region for region in REGIONS if region in handles]
    legend(figure, [handles[region] for region in regions], regions, width)
    return figure


def draw_case(cell, row, case, handles):
    seconds = case.region_seconds()
    total = sum(seconds.values())
    left = 0.0
    for region, value in seconds.items():
        share = 100 * value / total
        bars = cell.barh(row, share, 0.78, left=left, **part_style(region))
        if share >= 0.05:
            handles.setdefault(region, bars)
        if share >= 9:
            cell.text(
                left + share / 2,
                row,
                f"{share:.0f}",
                ha="center",
                va="center",
                fontsize=7.5,
                color=text_on(COLOURS[region]),
                bbox={"facecolor": COLOURS[region], "edgecolor": "none", "pad": 1},
            )
        left += share
    seconds = [round["total_seconds"] for round in case.rounds]
    spread = f" ± {stdev(seconds):.1g}" if len(seconds) > 1 else ""
    note_behind(cell, row, f"{total:.3g}{spread} s")


if __name__ == "__main__":
    main(__doc__, draw)
