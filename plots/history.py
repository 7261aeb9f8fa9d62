"""Draws RTFx and word error rate from revision to revision, as `rtfx report --history` gathers them."""

from journal import by_batch, panels
from matplotlib.ticker import MaxNLocator
from style import NARROW, legend, new_figure, series_style

MEASURES = {
    "rtfx.total": "RTFx total (s of audio per s)",
    "rtfx.decode": "RTFx decode (s of audio per s)",
    "wer": "word error rate (%)",
}


def value_of(point, measure):
    """Returns (value, low, high); the ends equal the value where there is no interval."""
    found = point[measure]
    if measure == "wer":
        return (100 * found,) * 3
    ends = [found[key] if found[key] is not None else found["estimate"] for key in ("low", "high")]
    return found["estimate"], *ends


def draw(history, cases, width):
    """Draws the history. The journal's `cases` tell to which panel each case of the history belongs."""
    points = {case["case"]: case["points"] for case in history["cases"]}
    cases = [case for case in cases if case.name in points and case.has_words]
    if not cases:
        return None
    groups = by_batch(panels(cases))
    names = list(dict.fromkeys(case.decoder for case in cases))
    stacked = width <= NARROW
    rows = len(groups) * (len(MEASURES) if stacked else 1)
    figure, axes = new_figure(rows, 1 if stacked else len(MEASURES), width, [1.7] * rows)
    handles = {}
    for row, (title, group) in zip(axes.reshape(len(groups), len(MEASURES)), groups.items()):
        times = sorted({(p["started"], tick(p)) for c in group for p in points[c.name]})
        for cell, (measure, label) in zip(row, MEASURES.items()):
            for case in group:
                i = names.index(case.decoder)
                known = [p for p in points[case.name] if p[measure] is not None]
                line = draw_line(cell, known, measure, times, i)
                handles.setdefault(case.decoder, line)
            keep_to_values(cell)
            few = len(times) <= (3 if stacked else 2)
            labels = [text if few else text.replace("\n", " ") for _, text in times]
            cell.set_xticks(range(len(times)), labels, rotation=0 if few else 90)
            cell.tick_params(axis="x", labelsize=6.5)
            cell.set_xlim(-0.5, len(times) - 0.5)
            cell.yaxis.set_major_locator(MaxNLocator(5))
            cell.set_ylabel(label, fontsize=8)
            cell.grid(axis="y")
        row[0].set_title(title)
    legend(figure, list(handles.values()), list(handles), 0.7 * width)
    return figure


def tick(point):
    """Returns the revision, with a + for uncommitted changes, and month and day below it."""
    return f"{point['revision'][:8]}{'+' if point['dirty'] else ''}\n{point['started'][5:10]}"


def draw_line(cell, points, measure, times, i):
    order = [started for started, _ in times]
    # Lines of several decoders at one revision stand beside each other.
    xs = [order.index(point["started"]) + 0.06 * (i % 7 - 3) for point in points]
    values = [value_of(point, measure) for point in points]
    style = series_style(i)
    (line,) = cell.plot(xs, [v for v, _, _ in values], markersize=3.5, linewidth=1.1, **style)
    cell.vlines(xs, [low for _, low, _ in values], [high for _, _, high in values],
                color=style["color"], linewidth=0.8)  # fmt: skip
    return line


def keep_to_values(cell):
    """Limits the axis to the values, since a bad round may widen one interval far beyond all others."""
    values = [value for line in cell.get_lines() for value in line.get_ydata()]
    low, high = min(values, default=0), max(values, default=1)
    margin = 0.25 * (high - low) or 0.05 * high or 1
    cell.set_ylim(low - margin, high + margin)
