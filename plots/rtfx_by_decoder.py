"""RTFx by decoder: in total and of decoding alone, for each model and batch size."""

from journal import panels
from matplotlib.ticker import LogLocator, NullLocator
from style import BAR, NARROW, SERIES, legend, main, name_rows, new_figure, short_number

METRICS = {"rtfx.total": "RTFx total", "rtfx.decode": "RTFx decode"}


def draw(cases, width):
    cases = [case for case in cases if case.metric("rtfx.total")[0] and case.has_words]
    if not cases:
        return None
    groups = panels(cases)
    batches = list(dict.fromkeys(case.batch for case in cases))
    colours = {batch: SERIES[i % len(SERIES)] for i, batch in enumerate(batches)}
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
                bars = draw_batch(cell, group, decoders[title], batches, batch, metric, colours)
                if bars:
                    handles.setdefault(batch, bars)
            name_rows(cell, decoders[title])
            if cell is not row[0] and not stacked:
                cell.set_yticklabels([])
            scale(cell, group, metric)
            cell.set_title(title if cell is row[0] or stacked else "")
            cell.set_xlabel(f"{label} (s of audio per s)")
    unit = "batch " if len(batches) > 1 else "batch size "
    legend(figure, list(handles.values()), [unit + batch for batch in handles], width)
    return figure


def draw_batch(cell, group, decoders, batches, batch, metric, colours):
    chosen = [case for case in group if case.batch == batch and case.metric(metric)[0]]
    if not chosen:
        return None
    height = 0.8 / len(batches)
    offset = (batches.index(batch) - (len(batches) - 1) / 2) * height
    rows = [decoders.index(case.decoder) + offset for case in chosen]
    means, deviations = zip(*(case.metric(metric) for case in chosen))
    bars = cell.barh(
        rows,
        means,
        height * 0.9,
        color=colours[batch],
        xerr=deviations,
        error_kw={"elinewidth": 0.8, "ecolor": "#777777"},
    )
    for row, mean, deviation in zip(rows, means, deviations):
        text = f"{mean:.0f}" if mean >= 100 else f"{mean:.1f}"
        cell.annotate(
            text,
            (mean + deviation, row),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
        )
    return bars


def scale(cell, group, metric):
    """Logarithmic where the fastest is over eight times the slowest: small bars would vanish."""
    pairs = [case.metric(metric) for case in group if case.metric(metric)[0]]
    if not pairs:
        return
    low, high = min(mean for mean, _ in pairs), max(mean + deviation for mean, deviation in pairs)
    if high > 8 * low:
        cell.set_xscale("log")
        cell.set_xlim(low / 2, high * 2.2)
        cell.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        cell.xaxis.set_major_formatter(short_number)
        cell.xaxis.set_minor_locator(NullLocator())
    else:
        cell.set_xlim(0, high * 1.2)


if __name__ == "__main__":
    main(__doc__, draw)
