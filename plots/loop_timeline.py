"""Draws a short stretch of a decoder's loop: CUDA calls of the host, and kernels and copies of the GPU.

The title of a panel gives the share of time in which no kernel runs. It reads trace.json of `rtfx profile`."""

from style import BLUE, GREY, ORANGE, name_rows, new_figure
from timeline import busy_share, main

REGION = "decode.loop"
MICROSECONDS = 400.0
ROWS = {"CUDA calls": ("calls", ORANGE), "kernels": ("kernels", BLUE), "copies": ("copies", GREY)}


def stretch(lap, length):
    """Returns (begin, end) of `length` µs around the middle of the longest loop.

    The middle lies after the loop's start, and before the first rows of the batch end. If the trace lacks the last
    events of a loop, the part that the trace has counts as the loop."""
    known = [(begin, min(end, lap.known_until)) for begin, end in lap.spans(REGION)]
    begin, end = max(known, key=lambda span: span[1] - span[0])
    middle, length = (begin + end) / 2, min(length, end - begin)
    return middle - length / 2, middle + length / 2


def inside(spans, begin, end):
    cut = [(max(b, begin), min(e, end)) for b, e, _ in spans if b < end and e > begin]
    return [(b - begin, e - b) for b, e in cut]


def draw(laps, width, microseconds=MICROSECONDS):
    if laps and not any(lap.has_device for lap in laps):
        raise SystemExit("no case with GPU figures; give a profile from a GPU")
    laps = [lap for lap in laps if lap.has_device and lap.spans(REGION)]
    laps = [lap for lap in laps if stretch(lap, microseconds)[1] > stretch(lap, microseconds)[0]]
    if not laps:
        return None
    figure, axes = new_figure(len(laps), 1, width, [0.7] * len(laps))
    for cell, lap in zip(axes[:, 0], laps):
        begin, end = stretch(lap, microseconds)
        for row, (events, colour) in enumerate(ROWS.values()):
            spans = inside(getattr(lap, events), begin, end)
            cell.broken_barh(spans, (row - 0.36, 0.72), color=colour, linewidth=0)
        (busy,) = busy_share(lap.kernels, [begin, end])
        name_rows(cell, list(ROWS))
        cell.set_xlim(0, end - begin)
        cell.grid(False)
        cell.set_title(f"{lap.case}\nno kernel {100 * (1 - busy):.0f} %")
    axes[-1, 0].set_xlabel(f"µs, from the middle of the longest recorded {REGION}; profiler included")
    return figure


if __name__ == "__main__":
    main(__doc__, draw, microseconds=MICROSECONDS)
