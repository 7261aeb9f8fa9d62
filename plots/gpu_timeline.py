"""Draws a pass over time: its regions above, and below the share of time in which a kernel runs.

It reads trace.json, which `rtfx profile` writes."""

from dataclasses import dataclass
from itertools import pairwise

from journal import REGIONS
from matplotlib.patches import Patch
from region_share import part_style
from style import FAINT, INK, NARROW, duration, legend, name_rows, new_figure, note_behind
from timeline import busy_share, main

ROW = 0.42  # inches
BINS = 240


@dataclass
class Row:
    title: str
    label: str


def name_of(case):
    """Splits model/dataset/decoder/b32/bf16 into the decoder, which labels the row, and the panel's title.

    The decoder may contain slashes, since an option of it may be a path. An imported case may have a name of another
    form. That name labels its row, in a panel without a title."""
    if case.count("/") < 4:
        return Row("", case)
    model, dataset, searched = case.split("/", 2)
    decoder, *rest = searched.rsplit("/", 2)
    return Row(", ".join([model, dataset, *rest]), decoder)


def draw(laps, width):
    if not laps:
        return None
    groups = {}
    for lap in laps:
        groups.setdefault(name_of(lap.case).title, []).append(lap)
    figure, axes = new_figure(len(groups), 1, width, [ROW * len(g) + 0.1 for g in groups.values()])
    shown = set()
    for cell, (title, group) in zip(axes[:, 0], groups.items()):
        for row, lap in enumerate(group):
            draw_regions(cell, row, lap, shown)
            if lap.has_device:
                draw_device(cell, row, lap, BINS if width > NARROW else BINS // 2)
        name_rows(cell, [name_of(lap.case).label for lap in group])
        cell.set_xlim(0, 100)
        cell.grid(False)
        cell.set_title(title)
    axes[-1, 0].set_xlabel("share of the pass (%); right: its length, profiler included")
    handles = {name: Patch(**part_style(name)) for name in REGIONS if name in shown}
    if any(lap.has_device for lap in laps):
        handles["a kernel runs"] = Patch(color=INK)
    if any(lap.has_device and lap.known_until < lap.end for lap in laps):
        handles["not recorded"] = Patch(facecolor="none", edgecolor=FAINT, hatch="////")
    legend(figure, list(handles.values()), list(handles), width)
    return figure


def draw_regions(cell, row, lap, shown):
    for name in REGIONS:
        spans = [
            (100 * begin / lap.end, 100 * (end - begin) / lap.end) for begin, end in lap.spans(name)
        ]
        if spans:
            cell.broken_barh(spans, (row - 0.42, 0.26), **part_style(name))
            shown.add(name)
    note_behind(cell, row, duration(lap.end / 1e6))


def draw_device(cell, row, lap, bins):
    """Draws the busy share as the height of a curve; the faint line is 100 %."""
    base, height = row + 0.40, 0.52
    edges = [lap.end * i / bins for i in range(bins + 1)]
    known = [edge for edge in edges if edge <= lap.known_until]
    shares = busy_share(lap.kernels, known) if len(known) > 1 else []
    xs = [100 * edge / lap.end for pair in pairwise(known) for edge in pair]
    ys = [base - height * share for share in shares for _ in range(2)]
    cell.fill_between(xs, ys, base, color=INK, linewidth=0)
    cell.plot([0, 100], [base - height] * 2, color=FAINT, linewidth=0.5)
    if lap.known_until < lap.end:
        start = xs[-1] if xs else 0
        cell.broken_barh(
            [(start, 100 - start)],
            (base - height, height),
            facecolor="none",
            edgecolor=FAINT,
            hatch="////",
            linewidth=0,
        )


if __name__ == "__main__":
    main(__doc__, draw)
