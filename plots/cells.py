"""Arithmetic for the cells of a published table: finds the case of a cell, its value here, and whether they agree.

A cell is an object of "cells" in configs/tables/*.json. It selects a case by `model`, `decoder` and
`batch`, and by `dataset` and `dtype` where there are several, or by the case's whole name (`case`).

Metrics:
  rtfx.total, rtfx.decode         seconds of audio per second of work, mean over rounds
  share.decode                    percent of the total time that is decoding
  wer                             word error rate in percent
  min_ms.total, min_ms.decode     milliseconds for one batch, the least of all rounds
  speedup.total, speedup.decode   times faster than the decoder `over`, at the same settings;
                                  decode: (share / RTFx of `over`) / (share / RTFx of the arm)
  speedup.min_ms.total, .decode   the same from the least times
  saved.decode                    percent of the decoding time of `over` that the arm does without
  stream.compute_ms, .queue_ms, .total_ms, each also .p50, .p99, .max; stream.rtfx
                                  from `rtfx stream`, where `batch` is the number of streams

Classes: W is an accuracy, which should be equal when rounded. R is a ratio, which should have the same direction and a
similar size. H is the speed of a machine, which is never judged. Q compares the order only. A speed-up has a direction
where its 95 % interval over rounds excludes 1.
"""

import math

from intervals import paired_ratio, unpaired_ratio

METRICS = {
    "rtfx.total": "RTFx, total",
    "rtfx.decode": "RTFx, decoding alone",
    "share.decode": "Share of decoding in the total time, %",
    "wer": "Word error rate, %",
    "min_ms.total": "Total time, ms",
    "min_ms.decode": "Decoding time, ms",
    "speedup.total": "Speed-up, total",
    "speedup.decode": "Speed-up, decoding alone",
    "speedup.min_ms.total": "Speed-up, total (least times)",
    "speedup.min_ms.decode": "Speed-up, decoding alone (least times)",
    "saved.decode": "Share of the decoding time that is saved, %",
    "stream.compute_ms": "Streams: mean time of a request in work, ms",
    "stream.queue_ms": "Streams: mean time of a request in the queue, ms",
    "stream.total_ms": "Streams: mean latency, ms",
    "stream.total_ms.p99": "Streams: 99th percentile of the latency, ms",
    "stream.rtfx": "Streams: seconds of audio per second",
}


def matches(case, cell):
    if "case" in cell:
        return case.name == cell["case"]
    found = {
        "model": case.model,
        "decoder": case.decoder,
        "batch": case.batch,
        "dataset": case.dataset,
        "dtype": case.dtype,
    }
    return all(str(cell[key]) == found[key] for key in found if key in cell)


def find_case(cases, cell):
    """Returns the cell's case; None where it was not run, and for arms of the paper that rtfx lacks."""
    if "case" not in cell and not cell.get("decoder"):
        return None
    return next((case for case in cases if matches(case, cell)), None)


def batches_of(case):
    """Returns the number of batches in a pass; None for batches by seconds, which the journal does not count."""
    if case.last["batch"]["by"] != "count":
        return None
    return math.ceil(case.last["dataset"]["utterances"] / case.last["batch"]["size"])


def least_ms(case, part):
    batches = batches_of(case)
    if not batches:
        return None
    return 1000 * min(seconds_of(run, part) for run in case.rounds) / batches


def seconds_of(run, part):
    return run["total_seconds"] if part == "total" else run["regions"][part]["host_seconds"]


def cost(case, part):
    """Returns the seconds of work per second of audio."""
    total = case.metric("rtfx.total")[0]
    if part == "total":
        return total and 1 / total
    share = case.metric("share.decode")[0]
    return share / total if total and share is not None else None


def value_of(case, metric):
    """Returns the metric of one case; None without a result. Speed-ups need two cases: speed_up()."""
    if case is None or case.failure or not case.rounds:
        return None
    if not case.has_words and not metric.endswith(".total"):
        return None
    if metric == "wer":
        wer = (case.last.get("wer") or {}).get("wer")
        return None if wer is None else 100 * wer
    if metric.startswith("min_ms."):
        return least_ms(case, metric.removeprefix("min_ms."))
    mean = case.metric(metric)[0]
    return 100 * mean if metric == "share.decode" and mean is not None else mean


def speed_up(baseline, arm, metric):
    """Returns how many times as fast as `baseline` the case `arm` is."""
    if any(case is None or case.failure or not case.rounds for case in (baseline, arm)):
        return None
    part = metric.removeprefix("speedup.")
    measure = (
        (lambda case: least_ms(case, part.removeprefix("min_ms.")))
        if part.startswith("min_ms.")
        else (lambda case: cost(case, part))
    )
    ours, theirs = measure(arm), measure(baseline)
    return theirs / ours if ours and theirs else None


def baseline_of(cases, cell, case):
    """Returns the case of the decoder `over` at the same settings."""
    return find_case(cases, {"decoder": cell["over"]} | same_settings(case))


def our_value(cases, cell):
    case = find_case(cases, cell)
    metric = cell["metric"]
    if not metric.startswith(("speedup.", "saved.")):
        return value_of(case, metric)
    if case is None:
        return None
    baseline = baseline_of(cases, cell, case)
    if metric.startswith("speedup."):
        return speed_up(baseline, case, metric)
    times = speed_up(baseline, case, metric.replace("saved.", "speedup."))
    return times and 100 * (1 - 1 / times)


def our_interval(cases, cell):
    """Returns the 95 % interval (low, high) of a speed-up; None for other metrics, without a result, and for one round.

    The interval uses the times of all rounds, even where the cell compares least times. Rounds of one
    invocation were measured side by side and are paired by their numbers.
    """
    case = find_case(cases, cell)
    if case is None or not cell["metric"].startswith("speedup."):
        return None
    baseline = baseline_of(cases, cell, case)
    if any(c is None or c.failure or not c.rounds for c in (baseline, case)):
        return None
    part = cell["metric"].rpartition(".")[2]
    theirs, ours = (
        {(run["provenance_id"], run["round"]): seconds_of(run, part) for run in c.rounds}
        for c in (baseline, case)
    )
    if theirs.keys() == ours.keys():
        return paired_ratio([ours[key] for key in theirs], list(theirs.values()))
    return unpaired_ratio(list(ours.values()), list(theirs.values()))


def same_settings(case):
    return {
        "model": case.model,
        "dataset": case.dataset,
        "batch": case.batch,
        "dtype": case.dtype,
    }


def digits_of(published):
    """Returns the number of printed decimals, such as 2 for "75.30"."""
    return len(published.partition(".")[2])


def direction(interval, published):
    """Compares the 95 % interval of a ratio with the direction of the published ratio."""
    if interval is None:
        return "one round: not judged"
    low, high = interval
    if low <= 1 <= high:
        return "no difference"
    return "same direction" if (low > 1) == (published > 1) else "reversed"


def agreement(cell, ours, interval=None):
    """Returns the judgement of the two figures by the cell's class; empty where the class judges nothing.

    `interval` is the result of our_interval()."""
    if ours is None:
        return ""
    theirs = float(cell["published"])
    if cell["class"] == "W":
        difference = round(ours, digits_of(cell["published"])) - theirs
        return "equal" if abs(difference) < 1e-9 else f"{difference:+.2f}"
    if cell["class"] == "R":
        similar = 0.5 <= ours / theirs <= 2
        if not cell["metric"].startswith("speedup."):
            return "similar" if similar else "differs"
        if theirs == 1:
            return "similar" if similar else "differs"
        found = direction(interval, theirs)
        size = "" if similar or found != "same direction" else ", other size"
        ends = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
        return f"{found}{size}{ends}"
    return ""
