"""Draws the share of the decode region in which kernels run, and in which none runs, for each decoder and batch size.

It reads profile.jsonl, which `rtfx profile` writes on a GPU. A row without known kernels says so.
"""

from pathlib import Path
from statistics import mean

from journal import Case, Journal, plain_or_gzip, read_records
from style import (
    BLUE,
    HATCHED,
    HATCHES,
    INK,
    bars_by_panel,
    duration,
    legend,
    main,
    name_axis,
    note_behind,
    write_in_bar,
)

REGION = "decode"
MANY_KERNELS = 1000  # in a lap; a region with fewer does not tell how much time the profiler adds to a kernel
IDLE = "#DDDDDD"
BUSY, NONE = "kernels", "no kernel"
UNKNOWN = "not known: a CUDA graph counts as one kernel"
AXIS = "time with a kernel / time of decoding without the profiler (%), with its error; right: that time"
# The label of the axis for profiles of earlier releases, which have no laps without the profiler.
OLD_AXIS = "share of decoding with the profiler on (%), where the GPU idles more; right: its length"


def read_profile(path):
    """Reads profile.jsonl, or that of a folder, plain or gzip. Cases without GPU figures are left out."""
    path = Path(path)
    path = plain_or_gzip(path / "profile.jsonl" if path.is_dir() else path)
    if not path.is_file():
        raise SystemExit(f"{path}: no profile there; `rtfx profile CONFIG` on a GPU writes one")
    cases = []
    for record in read_records(path):
        if not record.get("profiled"):
            raise SystemExit(f"{path}: not a profile; give profile.jsonl")
        if record["kind"] != "profile":
            continue
        region = record["regions"].get(REGION, {})
        if not record["valid"]:
            print(f"{path}: {record['case']} is left out: its profile is invalid")
        elif region and (record.get("gpu_figures") or region.get("gpu.busy") is not None):
            stand_in = record["dataset"].get("stand_in")
            cases.append(Case(record["case"], record, [record], stand_in_data=stand_in))
    return Journal(path, [], cases)


def read_profile_of_gpu(path):
    journal = read_profile(path)
    if not journal.cases:
        raise SystemExit(f"{path}: no case with GPU figures; give a profile from a GPU")
    return journal


def is_old(case):
    return "busy" not in case.last["regions"][REGION]


def busy_of(case):
    """Returns {"share", "low", "high"}; None where it is not known."""
    region = case.last["regions"][REGION]
    if not is_old(case):
        return region["busy"]
    if case.last.get("graph_trace") == "graph" and region.get("graph_launches"):
        return None
    share = region["gpu.busy"]
    return None if share is None else {"share": share, "low": None, "high": None}


def kernel_excess(cases):
    """Returns a lower bound of the seconds by which the profiler lengthens a kernel (harness/profile/child_process.h)."""
    most = 0.0
    for case in cases:
        for region in case.last["regions"].values():
            kernels, alone = (region.get(key) for key in ("lap_kernel_seconds", "undisturbed_seconds"))
            if kernels and alone and region.get("kernels"):
                count = region["kernels"] / len(kernels)
                if count < MANY_KERNELS:
                    continue
                most = max(most, (mean(kernels) - mean(alone)) / count)
    return most


def seconds_of(case):
    region = case.last["regions"][REGION]
    return mean(region.get("undisturbed_seconds") or [region["wall_seconds"] / case.last.get("laps", 1)])


def draw(cases, width):
    if not cases:
        return None
    handles, excess = {}, kernel_excess(cases)
    figure, lowest, left = bars_by_panel(cases, width, lambda cell, row, case: draw_case(cell, row, case, handles, excess))
    name_axis(lowest, OLD_AXIS if all(is_old(case) for case in cases) else AXIS, width, left)
    legend(figure, list(handles.values()), list(handles), 0.6 * width)
    return figure


def draw_case(cell, row, case, handles, excess):
    busy = busy_of(case)
    note_behind(cell, row, duration(seconds_of(case)))
    if busy is None:
        cell.text(1, row, UNKNOWN, va="center", fontsize=7.5)
        return
    filled = min(100, 100 * busy["share"])
    for label, left, share, colour, hatch in (
        (BUSY, 0, filled, BLUE, HATCHES[0]),
        (NONE, filled, 100 - filled, IDLE, HATCHES[1]),
    ):
        bars = cell.barh(row, share, 0.78, left=left, color=colour, hatch=hatch, **HATCHED)
        if share >= 0.05:
            handles.setdefault(label, bars)
        if share >= 9:
            is_more = label == BUSY and busy["share"] > 1
            text = f"{100 * busy['share']:.0f}, with what the profiler adds" if is_more else f"{share:.0f}"
            write_in_bar(cell, left + share / 2, row, text, colour)
    if busy["low"] is not None and busy["high"] is not None:  # one lap has no interval
        kernels = case.last["regions"][REGION].get("kernels", 0) / case.last.get("laps", 1)
        low = busy["low"] - kernels * excess / seconds_of(case)
        ends = [min(100, max(0, 100 * end)) for end in (low, busy["high"])]
        cell.plot(ends, [row, row], color=INK, linewidth=1.2, marker="|", markersize=5)


if __name__ == "__main__":
    main(__doc__.splitlines()[0], draw, read_profile_of_gpu)
