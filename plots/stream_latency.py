"""Latency of a streaming server by the number of its streams, beside what M/D/1 expects."""

from journal import panels
from style import (
    GREY,
    SERIES,
    entry_width,
    legend,
    main,
    new_figure,
    number_log_scale,
    short_number,
)

LATENCIES = {"stream.total_ms.p50": ":", "stream.total_ms": "-", "stream.total_ms.p99": "--"}
NAMES = {":": "median", "-": "mean", "--": "99th percentile"}
EXPECTED = "stream.md1_total_ms"


def lines(cases):
    """{decoder: its cases by their number of streams}."""
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
            colour = SERIES[names.index(name) % len(SERIES)]
            draw_latency(latency, own, colour, handles, name)
            counts = [streams(case) for case in own]
            work.plot(counts, [case.metric("stream.compute_ms")[0] for case in own], "o-",
                      color=colour, markersize=4, linewidth=1.4)  # fmt: skip
            work.plot(counts, [case.metric("stream.queue_ms")[0] for case in own], "o:",
                      color=colour, markersize=4, linewidth=1.4)  # fmt: skip
        latency.set_ylabel("latency of a request (ms)")
        work.set_ylabel("work (line), queue (dots) (ms)")
        for cell in (latency, work):
            cell.set_xlabel("streams")
            cell.set_xscale("log", base=2)
            cell.xaxis.set_major_formatter(short_number)
            cell.set_yscale("log")
            number_log_scale(cell.yaxis)
            cell.grid(axis="y")
    legend(figure, list(handles.values()), list(handles), width, entry_width(handles))
    return figure


def draw_latency(axes, own, colour, handles, name):
    counts = [streams(case) for case in own]
    for metric, style in LATENCIES.items():
        values = [case.metric(metric)[0] for case in own]
        (line,) = axes.plot(counts, values, style, color=colour, linewidth=1.4)
        handles[f"{name}, {NAMES[style]}"] = line
    expected = [(streams(c), c.metric(EXPECTED)[0]) for c in own if c.metric(EXPECTED)[0]]
    if expected:
        (line,) = axes.plot(*zip(*expected), "x", color=GREY, markersize=5)
        handles["M/D/1"] = line
    for case in own:
        if not case.last["stable"]:
            axes.annotate("overloaded", (streams(case), case.metric("stream.total_ms")[0]),
                          fontsize=7, ha="right", va="bottom")  # fmt: skip


if __name__ == "__main__":
    main(__doc__, draw, shown=lambda journal: journal.streams)
