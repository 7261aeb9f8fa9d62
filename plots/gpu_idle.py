"""How much of the decode region the GPU is busy and idle, for each decoder and batch size.

From profile.jsonl, which `rtfx profile` writes on a GPU.
"""

from pathlib import Path

from journal import Case, Journal, panels, read_records
from matplotlib.lines import Line2D
from style import (
    BAR,
    BLUE,
    HATCHED,
    HATCHES,
    SKY,
    VERMILION,
    duration,
    legend,
    main,
    name_rows,
    new_figure,
    note_behind,
    text_on,
)

REGION = "decode"
GAPS, IDLE = "#B8D4C8", "#DDDDDD"
KERNELS, WHOLE_GRAPHS = "a kernel runs", "a kernel or graph runs"
PARTS = {
    KERNELS: BLUE,
    "only copies and memsets": SKY,
    "between a graph's kernels": GAPS,
    "idle": IDLE,
}
LAUNCH = "where idle would begin by launch intervals"


def read_profile(path):
    """`path`: profile.jsonl or the folder that holds it. Cases without GPU figures are left out."""
    path = Path(path)
    if path.is_dir():
        path = path / "profile.jsonl"
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
        elif region.get("gpu.busy") is not None:
            stand_in = record["dataset"].get("stand_in")
            cases.append(Case(record["case"], record, [record], stand_in_data=stand_in))
    return Journal(path, [], cases)


def draw(cases, width):
    if not cases:
        return None
    groups = panels(cases)
    figure, axes = new_figure(len(groups), 1, width, [BAR * len(g) + 0.2 for g in groups.values()])
    handles = {}
    whole_graphs = any(case.last.get("graph_trace") == "graph" for case in cases)
    for cell, (title, group) in zip(axes[:, 0], groups.items()):
        for row, case in enumerate(group):
            draw_case(cell, row, case.last["regions"][REGION], handles)
        name_rows(cell, [f"{case.decoder}, b {case.batch}" for case in group])
        cell.set_xlim(0, 100)
        cell.set_title(title)
    axes[-1, 0].set_xlabel("share of the decode region (%); right: its length, profiler included")
    labels = [WHOLE_GRAPHS if whole_graphs and name == KERNELS else name for name in handles]
    legend(figure, list(handles.values()), labels, 0.6 * width)
    return figure


def draw_case(cell, row, region, handles):
    wall = region["wall_seconds"]
    busy, with_copies = 100 * region["gpu.busy"], 100 * region["gpu.busy_with_copies"]
    # Older profiles do not say how much of it the device waited for the host.
    starved = 100 * region.get("gpu.starved", 1 - region["gpu.busy_with_copies"])
    shares = [busy, with_copies - busy, 100 - with_copies - starved, starved]
    left = 0.0
    for (label, colour), hatch, share in zip(PARTS.items(), HATCHES, shares):
        bars = cell.barh(row, share, 0.78, left=left, color=colour, hatch=hatch, **HATCHED)
        if share >= 0.05:
            handles.setdefault(label, bars)
        if share >= 9:
            cell.text(
                left + share / 2,
                row,
                f"{share:.0f}",
                ha="center",
                va="center",
                fontsize=7.5,
                color=text_on(colour),
                bbox={"facecolor": colour, "edgecolor": "none", "pad": 1},
            )
        left += share
    if region["gpu.idle_launch"] is not None:
        at = 100 * (1 - region["gpu.idle_launch"])
        cell.plot([at, at], [row - 0.39, row + 0.39], color=VERMILION, linewidth=1.8)
        handles.setdefault(LAUNCH, Line2D([], [], color=VERMILION, linewidth=1.8))
    note_behind(cell, row, duration(wall))


if __name__ == "__main__":
    main(__doc__.splitlines()[0], draw, read_profile)
