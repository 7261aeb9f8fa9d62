"""Draws how many streams a server sustains over the new audio of a step, over its latency, and their energy.

stream_capacity.py RUN [RUN ...] [--nemo FILE [FILE ...]] -o FILE

Each RUN is a run of `rtfx stream` with `stream.rule` or `stream.slo_ms`, with one `stream.period_ms`. A point is the largest
number of streams that kept the limit. With `stream.rule`, they kept it in the long trial too. A hollow point has a
mark, such as `suspect`. The line joins the Pareto front of one search. It leaves out points that another point beats in both
respects.

`--nemo` adds NeMo's steps, as rivals/nemo/stream_steps.py has measured them. Its points are the capacity of the best full
batch that was tried, at the time of its median step. That time is a lower bound of the latency.
"""

from dataclasses import dataclass
from typing import Callable

from journal import read_journal
from script import OneLineParser, printable, run_script
from style import (
    add_output,
    entry_width,
    legend,
    log_scale,
    new_figure,
    note_stand_ins,
    pareto_front,
    save,
    series_style,
    size_axis,
)
from sustained import sustained, sustained_by_nemo

STEP, STREAMS = "new audio of a step (ms)", "streams sustained"


@dataclass
class Panel:
    """One drawing of the figure. `x`, `y` and `text` are functions of a point of `sustained()`. A point whose x or y is
    None is left out."""

    below: str
    left: str
    x: Callable
    y: Callable
    text: Callable


PANELS = [
    Panel(STEP, STREAMS, lambda p: p.step_ms, lambda p: p.streams, lambda p: f"{p.streams:,g}"),
    Panel("new audio of a step +\n95th percentile of the final result (ms)", STREAMS, lambda p: p.latency_ms, lambda p: p.streams,
          lambda p: f"{p.step_ms:g} ms"),
    Panel(STEP, "energy (J per hour of audio)", lambda p: p.step_ms, lambda p: p.joules_per_hour,
          lambda p: f"{p.joules_per_hour:,.0f}"),
]  # fmt: skip


def draw(points, width):
    """Returns the figure of these points of `sustained()`; None without points."""
    series = {}
    for point in points:
        series.setdefault(point.series, []).append(point)
    panels = [(panel, [p for p in points if None not in (panel.x(p), panel.y(p))]) for panel in PANELS]
    panels = [(panel, shown) for panel, shown in panels if shown]
    if not panels:
        return None
    figure, axes = new_figure(1, len(panels), width, [2.8])
    handles = {}
    for cell, (panel, shown) in zip(axes[0], panels):
        for i, (name, own) in enumerate(series.items()):
            if drawn := [(panel.x(p), panel.y(p), p) for p in own if p in shown]:
                handles[name] = draw_series(cell, panel, drawn, i, shown)
        cell.set_xlabel(panel.below)
        cell.set_ylabel(panel.left)
        cell.margins(0.18, 0.12)
        log_scale(cell, "y")
        cell.grid(axis="y")
        if panel.below == STEP:
            size_axis(cell, [p.step_ms for p in shown])
    legend(figure, list(handles.values()), list(handles), width, entry_width(handles))
    return figure


def is_above(point, shown, panel):
    """Says whether a point stands above the nearest point of another series with the same step."""
    others = [panel.y(other) for other in shown if other.step_ms == point.step_ms and other is not point]
    return not others or panel.y(point) >= min(others, key=lambda y: abs(y - panel.y(point)))


def draw_series(cell, panel, points, i, shown):
    """Draws the i-th series, whose points are (x, y, point). Each point has its number beside it.

    Where another series has a point at the same step, the number of the upper point stands above it, and that of the
    lower one below it."""
    style, rises = series_style(i), panel.left == STREAMS
    line = pareto_front(points, lambda point: point[:2]) if rises else sorted(points, key=lambda point: point[0])
    (handle,) = cell.plot([x for x, *_ in line], [y for _, y, _ in line], markersize=5, linewidth=1.4, **style)
    # Numbers stand where they do not cover the line: upper left or lower right of the points of a rising line.
    above = {"xytext": (-2, 5), "ha": "right"} if rises else {"xytext": (4, 5)}
    below = {"xytext": (4, -9)} if rises else {"xytext": (-2, -9), "ha": "right"}
    for x, y, point in points:
        hollow = {"markerfacecolor": "white"} if point.marks else {}
        cell.plot([x], [y], markersize=5, linewidth=0, **style, **hollow)
        place = above if is_above(point, shown, panel) else below
        cell.annotate(panel.text(point), (x, y), textcoords="offset points", fontsize=7, **place)
    return handle


def main():
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders or journals of `rtfx stream`, one for each `stream.period_ms`")
    parser.add_argument("--nemo", nargs="+", default=[], metavar="FILE", help="files of rivals/nemo/stream_steps.py")
    add_output(parser)
    arguments = parser.parse_args()
    run_script(lambda: draw_file(arguments))


def draw_file(arguments):
    ours = sustained(case for run in arguments.runs for case in read_journal(run).streams)
    points = ours + sustained_by_nemo(arguments.nemo)
    figure = draw(points, arguments.width)
    if figure is None:
        raise SystemExit("stream_capacity: no run has a number of streams that kept a limit; "
                         "set stream.rule or stream.slo_ms")  # fmt: skip
    note_stand_ins(figure, [point.source for point in ours])
    save(figure, arguments.output)
    for point in sorted(points, key=lambda point: (point.series, point.step_ms)):
        marks = f" ({', '.join(point.marks)})" if point.marks else ""
        print(printable(f"{point.series}: {point.streams:g} streams with {point.step_ms:g} ms of new audio in a step{marks}"))


if __name__ == "__main__":
    main()
