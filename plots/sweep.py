"""Figures over an option of the decoders: panels in pairs for each model and set."""

import math

from options import option, wer_percent
from style import entry_width, legend, new_figure, spread_line

COLUMNS = 2


def lines_over(cases, keys, label):
    """{label(case): [(value of the option `keys`, case), ...] by value} of the cases with a WER that
    have the option; empty where no line has two points. `keys` may be a function of the case too."""
    lines = {}
    for case in cases:
        value = keys(case) if callable(keys) else option(case, *keys)
        if value is not None and case.rounds and wer_percent(case) is not None:
            lines.setdefault(label(case), []).append((value, case))
    if all(len(points) < 2 for points in lines.values()):
        return {}
    return {name: sorted(points, key=lambda point: point[0]) for name, points in lines.items()}


def draw_lines(groups, measures, xlabel, width, height=2.0, style=lambda name: {}):
    """groups: {title: lines_over(...)}; measures: {label of the axis: value(case), None: no point; a mean with its standard
    deviation, (None, None): no point}.
    The figure and its axes, a row of `height` inches for each group and a column for each measure
    that any case has, on paper two side by side; None without a line. style(name): of its line."""
    groups = {title: lines for title, lines in groups.items() if lines}
    if not groups:
        return None, []
    drawn = [case for lines in groups.values() for points in lines.values() for _, case in points]
    measures = {
        label: value
        for label, value in measures.items()
        if any(pair_of(value(case))[0] is not None for case in drawn)
    }
    names = list(dict.fromkeys(name for lines in groups.values() for name in lines))
    rows = len(groups) * math.ceil(len(measures) / COLUMNS)
    figure, axes = new_figure(rows, COLUMNS, width, [height] * rows)
    axes = axes.reshape(len(groups), -1)
    handles = {}
    for row, (title, lines) in zip(axes, groups.items()):
        for cell, (label, value) in zip(row, measures.items()):
            for name, points in lines.items():
                pairs = [pair_of(value(case)) for _, case in points]
                if all(mean is None for mean, _ in pairs):
                    continue
                handles[name] = spread_line(
                    cell, [x for x, _ in points], *zip(*pairs), names.index(name), **style(name)
                )
            cell.set_xlabel(xlabel)
            cell.set_ylabel(label)
            cell.grid(axis="y")
        for cell in row[len(measures) :]:
            cell.remove()
        row[0].set_title(title)
    names = [name for name in names if name in handles]
    legend(figure, [handles[name] for name in names], names, width, entry_width(names))
    return figure, axes[:, : len(measures)]


def pair_of(value):
    """A mean and its deviation; what has no rounds has none."""
    return value if isinstance(value, tuple) else (value, 0.0)
