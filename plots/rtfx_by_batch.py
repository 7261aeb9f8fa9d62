"""RTFx over the batch size: in total and of decoding alone, a line for each decoder."""

from journal import panels
from matplotlib.ticker import NullLocator
from options import rtfx
from style import main, number_log_scale
from sweep import draw_lines

MEASURES = {
    "RTFx total (s of audio per s)": rtfx,
    "RTFx decode (s of audio per s)": lambda case: case.metric("rtfx.decode")[0],
}


def size(case):
    return case.last["batch"]["size"]


def lines(cases):
    """{decoder: [(batch size, case), ...] by size}."""
    found = {}
    for case in sorted(cases, key=size):
        if case.has_words and all(value(case) for value in MEASURES.values()):
            found.setdefault(case.decoder, []).append((size(case), case))
    return found


def draw(cases, width):
    cases = [case for case in cases if case.last["batch"]["by"] == "count"]
    groups = {title: lines(group) for title, group in panels(cases).items()}
    figure, axes = draw_lines(groups, MEASURES, "batch size (utterances)", width)
    sizes = sorted({size(case) for case in cases})
    for cell in (cell for row in axes for cell in row):
        cell.set_xscale("log", base=2)
        cell.set_xticks(sizes, [f"{value:g}" for value in sizes])
        cell.set_yscale("log")
        number_log_scale(cell.yaxis)
        cell.xaxis.set_minor_locator(NullLocator())
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
