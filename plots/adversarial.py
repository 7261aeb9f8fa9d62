"""Draws how much longer a batch is decoded where some of its utterances keep it busy, over the batch size.

Such an utterance is called adversarial. The names of the sets end in p and the share of these utterances, such as
long_p0.01, and perhaps their number (long_p0.01_320). The times are relative to those of the set with p0. If an utterance is
adversarial with probability p, a batch of k holds at least one with probability 1 - (1 - p)^k. The dashed lines say what follows
for the time, if one such utterance makes a batch as slow as a batch of them. Where these (p1) were not measured, the ratio of the
lengths stands for how slow they are. Where they were, lengths also tell the share that a set really has."""

import math
import re
from statistics import mean

from style import INK, main, name_panel, new_figure, series_style, size_axis

NO_SHARE, ALL = 0.0, 1.0
COLUMNS = 3


def sets_and_share(case):
    """Returns the name of the case's sets without the share, and its share of adversarial utterances.

    Both are None for a set without a share. The number of utterances may follow the share: long_p0.01_320."""
    found = re.search(r"[_-]?p(\d+(?:\.\d+)?)(_\d+)?$", case.dataset)
    return (case.dataset[: found.start()], float(found[1])) if found else (None, None)


def share_of(case):
    return sets_and_share(case)[1]


def panel_of(case):
    """Returns what the cases of a panel share: model, decoder, dtype and the name of their sets."""
    return case.model, case.decoder, case.dtype, sets_and_share(case)[0]


def titles_of(panels):
    """Returns the panels' titles, with the dtype and the sets where they vary."""
    varies = [len(set(values)) > 1 for values in zip(*panels)]

    def title(model, decoder, dtype, sets):
        return ", ".join([decoder, model, *[dtype] * varies[2], *[sets] * varies[3]])

    return [title(*panel) for panel in panels]


def seconds_of(case):
    """Returns the mean time of decoding an utterance."""
    return mean(run["regions"]["decode"]["host_seconds"] for run in case.rounds) / case.last["dataset"]["utterances"]


def times_of(cases):
    """Returns {panel_of(case): {share: {batch size: times as slow as with the share 0}}}."""
    seconds = {}
    for case in cases:
        if case.rounds and case.has_words and share_of(case) is not None and case.last["batch"]["by"] == "count":
            panel = seconds.setdefault(panel_of(case), {})
            panel.setdefault(share_of(case), {})[case.last["batch"]["size"]] = seconds_of(case)
    times = {}
    for panel, shares in seconds.items():
        usual = shares.get(NO_SHARE, {})
        slower = {share: {size: s / usual[size] for size, s in sizes.items() if size in usual}
                  for share, sizes in shares.items() if share != NO_SHARE}  # fmt: skip
        slower = {share: sizes for share, sizes in sorted(slower.items()) if sizes}
        if slower:
            times[panel] = slower
    return times


def length_of(case):
    """Returns the mean length of the set's utterances in seconds."""
    return case.last["dataset"]["audio_seconds"] / case.last["dataset"]["utterances"]


def length_ratio(cases):
    """Returns how many times as long adversarial utterances are as the others, from the mean lengths of two sets."""
    lengths = {share_of(case): length_of(case) for case in cases}
    share = max(lengths, default=NO_SHARE)
    if share == NO_SHARE or NO_SHARE not in lengths:
        return None
    return 1 + (lengths[share] / lengths[NO_SHARE] - 1) / share


def true_shares(cases):
    """Returns {(share in the name, batch size): share in the set}, from mean lengths: a small set has no exact percent."""
    lengths = {(share_of(case), case.last["batch"]["size"]): length_of(case) for case in cases}
    return {(share, size): (seconds - lengths[NO_SHARE, size]) / (lengths[ALL, size] - lengths[NO_SHARE, size])
            for (share, size), seconds in lengths.items()
            if lengths.get((NO_SHARE, size), math.inf) < lengths.get((ALL, size), -math.inf)}  # fmt: skip


def expected(share, size, all_slow):
    """Returns the expected factor at a batch size: a batch is `all_slow` times as slow if it has one such utterance."""
    return 1 + (all_slow - 1) * (1 - (1 - share) ** size)


def draw(cases, width):
    times = times_of(cases)
    if not times:
        return None
    columns = min(COLUMNS, len(times)) if width > 5 else 1
    rows = -(-len(times) // columns)
    figure, axes = new_figure(rows, columns, width, [1.9] * rows)
    shares = sorted({share for panel in times.values() for share in panel})
    handles = {}
    for cell, title, (key, panel) in zip(axes.flat, titles_of(times), times.items()):
        alike = [case for case in cases if case.rounds and sets_and_share(case)[0] == key[-1]]
        lengths, true = length_ratio(alike), true_shares(alike)
        for share, sizes in panel.items():
            style = series_style(shares.index(share))
            points = sorted(sizes.items())
            (line,) = cell.plot(*zip(*points), markersize=4, linewidth=1.4, **style)
            handles[share] = line
            slow_by_size = panel.get(ALL) or dict.fromkeys(sizes, lengths)
            known = {size: slow for size, slow in slow_by_size.items() if size in sizes and slow}
            if share != ALL and known:
                theory = [(size, expected(true.get((share, size), share), size, slow)) for size, slow in sorted(known.items())]
                cell.plot(*zip(*theory), color=style["color"], linewidth=1, linestyle="--")
        cell.axhline(1, color=INK, linewidth=0.6)
        size_axis(cell, [size for sizes in panel.values() for size in sizes])
        cell.grid(axis="y")
        name_panel(cell, title, width / columns)
    for cell in axes.flat[len(times) :]:
        cell.remove()
    for row in axes:
        row[0].set_ylabel("decode time / p = 0")
    figure.supxlabel("batch size; dashed: expected from 1 − (1 − p)^k", fontsize=9)
    labels = [f"p = {share:g}" for share in sorted(handles)]
    figure.legend([handles[share] for share in sorted(handles)], labels, loc="outside upper left", ncols=len(labels),
                  frameon=False)  # fmt: skip
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
