"""Draws RTFx over the batch size, total and for decoding alone, with a line for each decoder."""

from journal import panels, rtfx_spread
from style import draw_lines, log_scale, main, size_axis

MEASURES = {
    "RTFx total (s of audio per s)": rtfx_spread,
    "RTFx decode (s of audio per s)": lambda case: case.metric("rtfx.decode"),
}


def size(case):
    return case.last["batch"]["size"]


def lines(cases):
    """Returns {decoder: [(batch size, case), ...] by size}."""
    found = {}
    for case in sorted(cases, key=size):
        if case.has_words and any(value(case)[0] for value in MEASURES.values()):
            found.setdefault(case.decoder, []).append((size(case), case))
    return found


def draw(cases, width):
    cases = [case for case in cases if case.last["batch"]["by"] == "count"]
    groups = {title: lines(group) for title, group in panels(cases).items()}
    figure, axes = draw_lines(groups, MEASURES, "batch size (utterances)", width)
    for cell in (cell for row in axes for cell in row):
        size_axis(cell, map(size, cases))
        log_scale(cell, "y")
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
