"""Draws RTFx by decoder, total and for decoding alone, for each model and batch size."""

from journal import panels
from script import decimals_of
from style import BAR, FAINT, NARROW, legend, log_scale, main, name_panel, name_rows, new_figure, series_style, spans_decades

METRICS = {"rtfx.total": "RTFx total", "rtfx.decode": "RTFx decode"}


def draw(cases, width):
    cases = [case for case in cases if case.metric("rtfx.total")[0] and case.has_words]
    if not cases:
        return None
    groups = panels(cases)
    batches = list(dict.fromkeys(case.batch for case in cases))
    decoders = {t: list(dict.fromkeys(c.decoder for c in group)) for t, group in groups.items()}
    heights = [max(0.5, BAR * len(group)) for group in groups.values()]
    stacked = width <= NARROW
    if stacked:
        heights = [height for height in heights for _ in METRICS]
    figure, axes = new_figure(len(heights), 1 if stacked else 2, width, heights)
    cells = axes.reshape(len(groups), len(METRICS))

    handles = {}
    for row, (title, group) in zip(cells, groups.items()):
        for cell, (metric, label) in zip(row, METRICS.items()):
            for batch in batches:
                points = draw_batch(cell, group, decoders[title], batches, batch, metric)
                if points:
                    handles.setdefault(batch, points)
            left = name_rows(cell, decoders[title])
            for row_end in range(len(decoders[title]) - 1):
                cell.axhline(row_end + 0.5, color=FAINT, linewidth=0.5)
            if cell is not row[0] and not stacked:
                cell.set_yticklabels([])
            scale(cell, group, groups, metric)
            name_panel(cell, title if cell is row[0] or stacked else "", width, left)
            cell.set_xlabel(f"{label} (s of audio per s)")
    unit = "batch " if len(batches) > 1 else "batch size "
    legend(figure, list(handles.values()), [unit + batch for batch in handles], width)
    return figure


def draw_batch(cell, group, decoders, batches, batch, metric):
    """Draws a point for each mean, with one standard deviation each way.

    On a logarithmic axis a bar would have no beginning."""
    chosen = [case for case in group if case.batch == batch and case.metric(metric)[0]]
    if not chosen:
        return None
    i = batches.index(batch)
    offset = (i - (len(batches) - 1) / 2) * 0.8 / len(batches)
    rows = [decoders.index(case.decoder) + offset for case in chosen]
    means, deviations = zip(*(case.metric(metric) for case in chosen))
    below = [min(deviation, 0.9 * mean) for mean, deviation in zip(means, deviations)]
    style = {"markersize": 4.5, "elinewidth": 0.9, **series_style(i)}
    points = cell.errorbar(means, rows, xerr=[below, deviations], linestyle="", **style)
    for row, mean, deviation in zip(rows, means, deviations):
        text = f"{mean:.{decimals_of(mean)}f}"
        cell.annotate(
            text,
            (mean + deviation, row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    return points


def range_of(group, metric):
    """Returns the least mean and the largest upper end of a panel's points; None without points."""
    pairs = [case.metric(metric) for case in group if case.metric(metric)[0]]
    return (min(mean for mean, _ in pairs), max(map(sum, pairs))) if pairs else None


def scale(cell, group, groups, metric):
    """Makes the axis logarithmic where in any panel the fastest is over eight times the slowest; else it begins at 0.

    Both speeds have the same kind of axis."""
    if (ends := range_of(group, metric)) is None:
        return
    if spans_decades(filter(None, (range_of(other, m) for other in groups.values() for m in METRICS))):
        log_scale(cell, "x", ends[0] / 2, ends[1] * 3)
    else:
        cell.set_xlim(0, ends[1] * 1.2)


if __name__ == "__main__":
    main(__doc__, draw)
