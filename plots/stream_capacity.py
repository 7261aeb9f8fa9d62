"""Draws how many streams a server sustains over the size of its steps, over its latency, and their energy.

stream_capacity.py RUN [RUN ...] -o FILE

Each RUN is a run of `rtfx stream` with `stream.rule` or `stream.slo_ms`, at one size of steps. A point is the largest
number of streams that kept the limit, with `stream.rule` in the long trial too. A hollow point has a mark, such as
`suspect`. The line joins the points of one search; those that another point beats in both respects stand off it.
"""

from collections import defaultdict
from pathlib import Path

from journal import read_journal
from script import OneLineParser, printable, run_script
from style import (
    WIDE,
    entry_width,
    figure_file,
    inches,
    legend,
    log_scale,
    new_figure,
    note_stand_ins,
    save,
    series_style,
    size_axis,
)

# Axis below, direction in which it is better, and the value of a case.
STEP = "new audio of a step (ms)"
LATENCY = "step and 95th percentile of the final result (ms)"
JOULES = "energy (J per hour of audio)"


def step_ms(case):
    return case.last["stream"]["period_ms"]


def latency_ms(case):
    """The size of a step, and the time from an utterance's last audio to its last result."""
    final, _ = case.metric("stream.final_ms.p95")
    return None if final is None else step_ms(case) + final


def joules(case):
    return case.metric("energy.joules_per_hour")[0]


def streams(case):
    return case.last["batch"]["size"]


def sustained(cases):
    """Returns the case with the most streams of each search that kept its limit, {(series, step): case}.

    The series are those of `name_of`. With a rule, only trials that confirm a number count."""
    best = {}
    for case in cases:
        last = case.last
        if not last.get("slo") or (last["stream"].get("rule") and not last.get("confirms")):
            continue
        key = (name_of(case), step_ms(case))
        if key not in best or streams(case) > streams(best[key]):
            best[key] = case
    return best


def name_of(case):
    return f"{case.model}, {case.decoder}, {case.dtype}"


def front(points):
    """Returns the points, (cost, streams, case), that no other beats: fewer streams only at a lower cost."""
    kept = []
    for point in sorted(points, key=lambda point: (point[0], -point[1])):
        if not kept or point[1] > kept[-1][1]:
            kept.append(point)
    return kept


def draw(cases, width):
    best = sustained(cases)
    panels = [
        (label, cost)
        for label, cost in ((STEP, step_ms), (LATENCY, latency_ms), (JOULES, joules))
        if any(cost(case) is not None for case in best.values())
    ]
    if not best:
        return None
    series = defaultdict(list)
    for (name, _), case in best.items():
        series[name].append(case)
    figure, axes = new_figure(1, len(panels), width, [2.8])
    handles = {}
    for cell, (label, cost) in zip(axes[0], panels):
        for i, (name, own) in enumerate(series.items()):
            points = [(cost(case), streams(case), case) for case in own if cost(case) is not None]
            if points:
                handles[name] = draw_series(cell, points, series_style(i), cost is step_ms)
        cell.set_xlabel(label)
        log_scale(cell, "y")
        cell.grid(axis="y")
        if cost is step_ms:
            size_axis(cell, [step_ms(case) for case in best.values()])
    axes[0][0].set_ylabel("streams sustained")
    legend(figure, list(handles.values()), list(handles), width, entry_width(handles))
    return figure


def draw_series(cell, points, style, is_first):
    """Labels points by their streams in the first panel, whose axis has the steps, and by their steps in the others."""
    line = front(points)
    (handle,) = cell.plot([x for x, *_ in line], [y for _, y, _ in line], markersize=5, linewidth=1.4, **style)
    for x, y, case in points:
        hollow = {"markerfacecolor": "white"} if case.marks else {}
        cell.plot([x], [y], markersize=5, linewidth=0, **style, **hollow)
        label = f"{y:g}" if is_first else f"{step_ms(case):g} ms"
        cell.annotate(label, (x, y), (4, -9), textcoords="offset points", fontsize=7)
    return handle


def main():
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders or journals of `rtfx stream`, one for each size of steps")
    parser.add_argument("-o", "--output", type=figure_file, required=True, help="file.svg, .pdf or .png")
    parser.add_argument("--width", type=inches, default=WIDE, help="inches (default: %(default)s)")
    arguments = parser.parse_args()
    run_script(lambda: draw_file(arguments))


def draw_file(arguments):
    cases = [case for run in arguments.runs for case in read_journal(run).streams]
    figure = draw(cases, arguments.width)
    if figure is None:
        raise SystemExit("stream_capacity: no run has a number of streams that kept a limit; "
                         "set stream.rule or stream.slo_ms")  # fmt: skip
    shown = list(sustained(cases).values())
    note_stand_ins(figure, shown)
    save(figure, arguments.output)
    for case in sorted(shown, key=lambda case: (name_of(case), step_ms(case))):
        marks = f" ({', '.join(case.marks)})" if case.marks else ""
        print(printable(f"{name_of(case)}: {streams(case):g} streams at steps of {step_ms(case):g} ms{marks}"))


if __name__ == "__main__":
    main()
