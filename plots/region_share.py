"""Draws the share of each region in a pass, for every case."""

from statistics import stdev

from journal import REGIONS
from style import (
    BLUE,
    GREEN,
    GREY,
    HATCHED,
    ORANGE,
    PURPLE,
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

COLOURS = dict(zip(REGIONS, [YELLOW, GREY, SKY, BLUE, ORANGE, GREEN, PURPLE, VERMILION]))

HATCHING = dict(zip(REGIONS, ["\\\\\\\\", "xxxx", "....", "", "////", "||||", "----", "++++"]))  # the encoder's bar is plain


def part_style(region):
    """Returns colour and hatching of a region."""
    return {"facecolor": COLOURS[region], "hatch": HATCHING[region], **HATCHED}


def draw(cases, width):
    cases = [case for case in cases if not case.is_overlapped and sum(case.region_seconds().values()) > 0]
    if not cases:
        return None
    handles = {}
    figure, lowest, left = bars_by_panel(cases, width, lambda cell, row, case: draw_case(cell, row, case, handles))
    name_axis(lowest, "share of the time of a pass (%); right: seconds a pass", width, left)
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
            write_in_bar(cell, left + share / 2, row, f"{share:.0f}", COLOURS[region])
        left += share
    seconds = [round["total_seconds"] for round in case.rounds]
    spread = f" ± {stdev(seconds):.1g}" if len(seconds) > 1 else ""
    note_behind(cell, row, f"{total:.3g}{spread} s")


if __name__ == "__main__":
    main(__doc__, draw)
