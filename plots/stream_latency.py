"""Draws the latency of a streaming server over its number of streams, beside the latency of an M/D/1 queue."""

from journal import panels
from style import (
    GREY,
    entry_width,
    legend,
    log_scale,
    main,
    new_figure,
    size_axis,
    spread_line,
)

LATENCIES = {"stream.total_ms.p50": ":", "stream.total_ms": "-", "stream.total_ms.p99": "--"}
NAMES = {":": "median", "-": "mean", "--": "99th percentile"}
EXPECTED = "stream.md1_total_ms"


def lines(cases):
    """Returns {decoder: its cases by number of streams}."""
    found = {}
    for case in cases:
        if case.rounds:
            found.setdefault(case.decoder, []).append(case)
    return {name: sorted(own, key=streams) for name, own in found.items()}


def streams(case):
    return case.last["batch"]["size"]


def draw(cases, width):
    groups = {title: lines(group) for title, group in panels(cases).items()}
    groups = {title: found for title, found in groups.items() if found}
    if not groups:
        return None
    names = list(dict.fromkeys(name for found in groups.values() for name in found))
    figure, axes = new_figure(len(groups), 2, width, [2.4] * len(groups))
    handles = {}
    for (latency, work), (title, found) in zip(axes, groups.items()):
        latency.set_title(title)
        for name, own in found.items():
            i = names.index(name)
            draw_latency(latency, own, i, handles, name)
            for metric, line in (("stream.compute_ms", "-"), ("stream.queue_ms", ":")):
                draw_metric(work, own, metric, i, line)
        latency.set_ylabel("latency of a request (ms)")
        work.set_ylabel("work (line), queue (dots) (ms)")
        for cell in (latency, work):
            cell.set_xlabel("streams")
            size_axis(cell, [streams(case) for own in found.values() for case in own])
            log_scale(cell, "y")
            cell.grid(axis="y")
    legend(figure, list(handles.values()), list(handles), width, entry_width(handles))
    return figure


def draw_metric(axes, own, metric, i, line):
    """Draws one metric; returns None where no case has it."""
    pairs = [case.metric(metric) for case in own]
    if all(mean is None for mean, _ in pairs):
        return None
    return spread_line(axes, [streams(case) for case in own], *zip(*pairs), i, linestyle=line)


def draw_latency(axes, own, i, handles, name):
    for metric, style in LATENCIES.items():
        if line := draw_metric(axes, own, metric, i, style):
            handles[f"{name}, {NAMES[style]}"] = line
    # An encoder that computes equal steps one after the other is no M/D/1 queue.
    queued = [c for c in own if c.last.get("stream", {}).get("scope") != "speech"]
    expected = [(streams(c), c.metric(EXPECTED)[0]) for c in queued if c.metric(EXPECTED)[0]]
    if expected:
        (line,) = axes.plot(*zip(*expected), "x", color=GREY, markersize=5)
        handles["M/D/1"] = line
    for case in own:
        if "OVERLOADED" in case.marks:
            axes.annotate("overloaded", (streams(case), case.metric("stream.total_ms")[0]),
                          (-8, 0), textcoords="offset points", fontsize=7, ha="right", va="center")  # fmt: skip


if __name__ == "__main__":
    main(__doc__, draw, shown=lambda journal: journal.streams)
