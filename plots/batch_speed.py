"""Draws the speed of each batch over the mean length of its utterances: total RTFx, and RTFx of decoding alone."""

import math
from statistics import median, stdev

from journal import by_batch, panels
from style import draw_lines, log_scale, main, short_number, spans_decades

LEAST, MOST = 6, 12  # points of a line; fewer batches give no line, and of more batches neighbours share a point
MOST_BARS = 4  # lines of a panel whose points have bars; the bars of more lines would hide each other

MEASURES = {
    "RTFx total (s of audio per s)": lambda point: point["total"],
    "RTFx decode (s of audio per s)": lambda point: point["decode"],
}


def points(case, most=None):
    """Returns [(mean seconds of an utterance, {region: (median RTFx, standard deviation) over rounds})] by length.

    There is a point for each batch. Where there are more than `most` batches, neighbours share a point. The list is
    empty where the journal does not tell how many utterances a batch has. It is also empty where batches overlap:
    then texts come in bursts, and the time from one batch's texts to the next one's is no speed."""
    rounds = [round["batches"] for round in case.rounds if round.get("batches")]
    if not rounds or case.is_overlapped or case.last["batch"]["by"] != "count":
        return []
    size, utterances = int(case.last["batch"]["size"]), case.last["dataset"]["utterances"]
    counts = [min(size, utterances - begin) for begin in range(0, utterances, size)]
    audio = rounds[0]["audio_seconds"]
    if len(audio) != len(counts) or len(counts) < LEAST:
        return []
    order = sorted(range(len(audio)), key=lambda batch: audio[batch] / counts[batch])
    joined = math.ceil(len(order) / (most or len(order)))
    groups = [order[begin : begin + joined] for begin in range(0, len(order), joined)]
    regions = ["total", "decode"] if case.has_words else ["total"]
    return [
        (
            sum(audio[batch] for batch in group) / sum(counts[batch] for batch in group),
            {"decode": (None, None)} | {region: speed(rounds, group, region) for region in regions},
        )
        for group in groups
    ]


def speed(rounds, group, region):
    """Returns median and standard deviation of RTFx over rounds, or (None, None) where a time rounds to 0 in the journal."""
    audio, seconds = (
        [sum(round[key][batch] for batch in group) for round in rounds]
        for key in ("audio_seconds", f"{region}_seconds")
    )
    if min(seconds) <= 0:
        return None, None
    speeds = [a / s for a, s in zip(audio, seconds)]
    return median(speeds), stdev(speeds) if len(speeds) > 1 else 0.0


def slowest_share(case):
    """Returns the total RTFx of the slowest batch divided by that of the fastest; None without points."""
    speeds = [point["total"][0] for _, point in points(case)]
    return min(speeds) / max(speeds) if speeds and all(speeds) else None


def draw(cases, width):
    cases = [case for case in cases if points(case)]
    groups = {
        title: {case.decoder: points(case, MOST) for case in group}
        for title, group in by_batch(panels(cases)).items()
    }
    bars = max(map(len, groups.values()), default=0) <= MOST_BARS
    style = {} if bars else {"elinewidth": 0, "markersize": 3}
    figure, axes = draw_lines(groups, MEASURES, "mean utterance (s)", width, style=lambda name: style)
    cells = [cell for row in axes for cell in row]
    logarithmic = spans_decades(cell.dataLim.intervaly for cell in cells)
    for cell in cells:
        log_scale(cell, "x")
        if logarithmic:
            log_scale(cell, "y")
        else:  # from 0, so that a share of the best can be seen
            cell.set_ylim(bottom=0)
            cell.yaxis.set_major_formatter(short_number)
    return figure


if __name__ == "__main__":
    main(__doc__, draw)
