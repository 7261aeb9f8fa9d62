"""Figures over an option of the decoders: panels in pairs for each model and set."""

import math

from options import option, wer_percent
from style import SERIES, entry_width, legend, new_figure

MARKERS = "os^Dv<>PXph*"
COLUMNS = 2


def lines_over(cases, keys, label):
    """{label(case): [(value of the option `keys`, case), ...] by value} of the cases with a WER that
    have the option; empty where no line has two points."""
    lines = {}
    for case in cases:
        value = option(case, *keys)
        if value is not None and case.rounds and wer_percent(case) is not None:
            lines.setdefault(label(case), []).append((value, case))
    if all(len(points) < 2 for points in lines.values()):
        return {}
    return {name: sorted(points, key=lambda point: point[0]) for name, points in lines.items()}


def draw_lines(groups, measures, xlabel, width):
    """groups: {title: lines_over(...)}; measures: {label of the axis: value(case), None: no point}.
    The figure and its axes, a row for each group and a column for each measure that any case has,
    on paper two side by side; None without a line."""
    groups = {title: lines for title, lines in groups.items() if lines}
    if not groups:
        return None, []
    drawn = [case for lines in groups.values() for points in lines.values() for _, case in points]
    measures = {
        label: value
        for label, value in measures.items()
        if any(value(case) is not None for case in drawn)
    }
    names = list(dict.fromkeys(name for lines in groups.values() for name in lines))
    rows = len(groups) * math.ceil(len(measures) / COLUMNS)
    figure, axes = new_figure(rows, COLUMNS, width, [2.0] * rows)
    axes = axes.reshape(len(groups), -1)
    handles = {}
    for row, (title, lines) in zip(axes, groups.items()):
        for cell, (label, value) in zip(row, measures.items()):
            for name, points in lines.items():
                i = names.index(name)
                values = [value(case) for _, case in points]
                (handles[name],) = cell.plot(
                    [x for x, _ in points],
                    [math.nan if y is None else y for y in values],
                    color=SERIES[i % len(SERIES)],
                    marker=MARKERS[i % len(MARKERS)],
                    markersize=4,
                    linewidth=1.4,
                )
            cell.set_xlabel(xlabel)
            cell.set_ylabel(label)
            cell.grid(axis="y")
        for cell in row[len(measures) :]:
            cell.remove()
        row[0].set_title(title)
    legend(figure, [handles[name] for name in names], names, width, entry_width(names))
    return figure, axes[:, : len(measures)]
