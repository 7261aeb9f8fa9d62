"""Draws the shares of encoder and decoder in a pass: a ring for each case, with its seconds inside."""

from math import cos, radians, sin

from journal import by_batch, panels
from matplotlib.patches import Patch
from style import BLUE, GREY, HATCHED, HATCHES, NARROW, ORANGE, legend, main, new_figure, text_on

PARTS = {
    "encoder": (BLUE, ["encoder"]),
    "decoder": (ORANGE, ["decode"]),
    "features, copies, text": (GREY, ["pad", "h2d", "features", "d2h", "detokenize", "confidence"]),
}


def seconds_of(case):
    regions = case.region_seconds()
    return [sum(regions.get(name, 0.0) for name in names) for _, names in PARTS.values()]


def draw(cases, width):
    cases = [case for case in cases if case.has_words and not case.is_overlapped and sum(seconds_of(case)) > 0]
    if not cases:
        return None
    columns = 5 if width > NARROW else 2
    rows = []  # lists of (title, case); each group of cases begins a new row
    for title, group in by_batch(panels(cases)).items():
        for first in range(0, len(group), columns):
            rows.append((title if first == 0 else "", group[first : first + columns]))
    figure, axes = new_figure(len(rows), columns, width, [1.1] * len(rows))
    for cells, (title, group) in zip(axes, rows):
        for cell in cells[len(group) :]:
            cell.set_axis_off()
        for cell, case in zip(cells, group):
            draw_case(cell, case)
        if title:
            # A heading is wider than its column, so that only a blank one takes part in the layout.
            place = {"transform": cells[0].transAxes, "fontsize": 9.5, "fontweight": "bold"}
            cells[0].text(0, 1.3, " ", **place)
            cells[0].text(0, 1.3, title, **place).set_in_layout(False)
    sums = map(sum, zip(*map(seconds_of, cases)))
    shown = {name: style_of(name) for name, seconds in zip(PARTS, sums) if seconds > 0}
    legend(figure, [Patch(**style) for style in shown.values()], list(shown), 0.7 * width)
    return figure


def style_of(part):
    """Returns colour and hatching."""
    return {"facecolor": PARTS[part][0], "hatch": HATCHES[list(PARTS).index(part)], **HATCHED}


def draw_case(cell, case):
    seconds = seconds_of(case)
    colours = [colour for colour, _ in PARTS.values()]
    rings = cell.pie(
        seconds,
        colors=colours,
        startangle=90,
        counterclock=False,
        wedgeprops={"width": 0.5},
    )
    for wedge, part in zip(rings[0], PARTS):
        wedge.set(hatch=style_of(part)["hatch"], **HATCHED)
    for wedge, share, colour in zip(rings[0], seconds, colours):
        share /= sum(seconds)
        if share >= 0.08:
            middle = (wedge.theta1 + wedge.theta2) / 2
            cell.text(*at(middle, 0.75), f"{100 * share:.0f} %", ha="center", va="center",
                      fontsize=6.5, color=text_on(colour))  # fmt: skip
    cell.text(0, 0, f"{sum(seconds):.3g} s", ha="center", va="center", fontsize=8)
    cell.set_title(case.decoder, loc="center", fontsize=7.5, fontweight="normal", pad=2)


def at(degrees, radius):
    return radius * cos(radians(degrees)), radius * sin(radians(degrees))


if __name__ == "__main__":
    main(__doc__, draw)
