"""Draws the kernels that take most of the GPU's time in the decode region of each case.

It reads profile.jsonl, which `rtfx profile` writes on a GPU. A bar is the sum of all kernels' times. A kernel has the same
colour and hatching in each bar.
"""

import re

from gpu_idle import REGION, read_profile_of_gpu
from style import (
    BAR,
    HATCHED,
    HATCHES,
    SERIES,
    bars_by_panel,
    duration,
    entry_width,
    legend,
    main,
    note_behind,
    write_in_bar,
)

REST = "#DDDDDD"
CHARACTER = 0.06  # inches that a character of a label is wide


def short_name(kernel):
    """Returns lstm_kernel for rtfx::fused::lstm_kernel<__nv_bfloat16>."""
    return re.sub(r"<.*", "", kernel).rsplit("::", 1)[-1]


def parts(region):
    """Returns (name, share of all kernels' time, mean seconds) of each kernel, the longest first."""
    kernels = region.get("top_kernels") or []
    return [(short_name(k["name"]), k["share"], k["mean_seconds"]) for k in kernels]


def draw(cases, width):
    cases = [case for case in cases if parts(case.last["regions"][REGION])]
    if not cases:
        return None
    bars, handles = [], {}
    figure, lowest, _ = bars_by_panel(cases, width, lambda cell, row, case: bars.extend(draw_case(cell, row, case, handles)), bar=1.4 * BAR)
    lowest.set_xlabel("share (%); right: kernel time of a lap")
    legend(figure, list(handles.values()), list(handles), width, entry_width(handles))
    figure.draw_without_rendering()  # the width of a bar is known from here on
    for bar in bars:
        label_bar(*bar)
    return figure


def draw_case(cell, row, case, handles):
    """Draws the bar of a case, and adds its kernels to `handles`; returns the arguments for label_bar()."""
    region = case.last["regions"][REGION]
    note_behind(cell, row, duration(region["kernel_seconds"] / case.last["laps"]))
    bars, left = [], 0.0
    for name, share, mean in parts(region):
        i = list(handles).index(name) if name in handles else len(handles)
        style = {"color": SERIES[i % len(SERIES)], "hatch": HATCHES[i % len(HATCHES)], **HATCHED}
        (bar,) = cell.barh(row, 100 * share, 0.8, left=left, **style)
        handles.setdefault(name, bar)
        bars.append((cell, bar, style["color"], (f"{name} {duration(mean)}", name)))
        left += 100 * share
    cell.barh(row, 100 - left, 0.8, left=left, color=REST)
    return bars


def label_bar(cell, bar, colour, labels):
    """Writes the first label that fits into its part of the bar, if one fits."""
    room = cell.get_window_extent().width / cell.figure.dpi * bar.get_width() / 100
    for label in (label for label in labels if CHARACTER * len(label) + 0.08 < room):
        x, y = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
        write_in_bar(cell, x, y, label, colour, size=7, pad=0.8)
        return


if __name__ == "__main__":
    main(__doc__.splitlines()[0], draw, read_profile_of_gpu)
