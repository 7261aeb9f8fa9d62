"""Arithmetic for the cells of a published table: finds the case of a cell, its value here, and whether they agree.

A cell is an object of "cells" in configs/tables/*.json. It selects a case by `model`, `decoder` and
`batch`, and by `dataset` and `dtype` where there are several, or by the case's whole name (`case`). A comparison is with
the decoder `over` at the same settings, or at `over_model` and `over_batch`. A cell with `again` compares a published figure
once more, over another baseline or with kernels that the paper lacks, and does not count as an effect.

Metrics:
  rtfx.total, rtfx.decode         seconds of audio per second of work, mean over rounds
  share.decode                    percent of the total time that is decoding
  wer                             word error rate in percent
  min_ms.total, min_ms.decode     milliseconds for one batch, the least of all rounds
  speedup.total, speedup.decode   times faster than the decoder `over`, at the same settings;
                                  decode: (share / RTFx of `over`) / (share / RTFx of the arm)
  speedup.min_ms.total, .decode   the same from the least times
  saved.decode                    percent of the decoding time of `over` that the arm does without
  slower.total, slower.decode     by how many percent the arm's RTFx is lower than that of `over`
  gain.wer                        by how many percent the arm's word error rate is lower than that of `over`
  clips_per_second.decode         utterances per second of decoding, by the fastest round
  joint_ms                        milliseconds of joint calls for one batch, the least of all rounds
  collisions                      percent of the compared pairs of texts that differ and have one hash
  idle.share                      percent of the decoding time without a running kernel, from `rtfx profile`
                                  into the run's folder
  stream.compute_ms, .queue_ms, .total_ms, each also .p50, .p99, .max; stream.rtfx
                                  from `rtfx stream`, where `batch` is the number of streams

Classes: W is an accuracy, which should be equal when rounded. R is a ratio, which should have the same direction and a
similar size. H is the speed of a machine, which is never judged. Q compares the order only. A speed-up has a direction
where its 95 % interval over rounds excludes 1, and a share that is saved or lost where it excludes 0. Word error rates
have no interval, so that their gains have the direction of the counted errors.
"""

import math

from intervals import ratio_of_rounds

# Comparisons with `over`, and the value that means no difference.
NEUTRAL = {"speedup.": 1, "saved.": 0, "slower.": 0, "gain.": 0}

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
    "slower.total": "How much slower, total, %",
    "slower.decode": "How much slower, decoding alone, %",
    "gain.wer": "Relative reduction of the word error rate, %",
    "clips_per_second.decode": "Utterances per second of decoding",
    "joint_ms": "Time of joint calls, ms",
    "collisions": "Collisions of hashes, % of the compared pairs",
    "idle.share": "Share of the decoding time without a running kernel, %",
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


def neutral(metric):
    """Returns the value of a comparison that means no difference; None for a metric of one case."""
    return next((value for start, value in NEUTRAL.items() if metric.startswith(start)), None)


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


def clips_per_second(case):
    return case.last["dataset"]["utterances"] / min(seconds_of(run, "decode") for run in case.rounds)


def joint_ms(case):
    times = [(run.get("counters") or {}).get("joint_us") for run in case.rounds]
    batches = batches_of(case)
    return None if None in times or not batches else min(times) / 1000 / batches


def wer_percent(case):
    wer = (case.last.get("wer") or {}).get("wer")
    return None if wer is None else 100 * wer


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
    """Returns the metric of one case; None without a result. Comparisons need two cases: our_value()."""
    if case is None or case.failure or not case.rounds:
        return None
    if not case.has_words and not metric.endswith(".total"):
        return None
    own = {"wer": wer_percent, "clips_per_second.decode": clips_per_second, "joint_ms": joint_ms}
    if metric in own:
        return own[metric](case)
    if metric.startswith("min_ms."):
        return least_ms(case, metric.removeprefix("min_ms."))
    if metric in ("idle.share", "collisions"):
        share = case.figures.get(metric, {}).get("estimate")
        return None if share is None else 100 * share
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
    """Returns the case of the decoder `over` at the same settings, but for those that the cell names."""
    others = {key: cell[f"over_{key}"] for key in ("model", "batch") if f"over_{key}" in cell}
    return find_case(cases, {"decoder": cell["over"]} | same_settings(case) | others)


def gain(baseline, arm):
    """Returns by how many percent the arm's word error rate is below the baseline's."""
    theirs, ours = (value_of(case, "wer") for case in (baseline, arm))
    return None if ours is None or not theirs else 100 * (1 - ours / theirs)


def of_times(metric, times):
    """Returns the metric of an arm that is `times` times as fast as its baseline."""
    if metric.startswith("saved."):
        return 100 * (1 - 1 / times)
    return 100 * (1 - times) if metric.startswith("slower.") else times


def as_speed_up(metric):
    return "speedup." + metric.partition(".")[2]


def our_value(cases, cell):
    case = find_case(cases, cell)
    metric = cell["metric"]
    if neutral(metric) is None:
        return value_of(case, metric)
    if case is None:
        return None
    baseline = baseline_of(cases, cell, case)
    if metric == "gain.wer":
        return gain(baseline, case)
    times = speed_up(baseline, case, as_speed_up(metric))
    return times and of_times(metric, times)


def our_interval(cases, cell):
    """Returns the 95 % interval (low, high) of a comparison of times; None for other metrics, without a result, and for
    one round.

    The interval uses the times of all rounds, even where the cell compares least times. Cases with the same model and
    batch were measured side by side. Cases of several invocations also differ by the drift between runs. Two GPUs may
    differ by more, as a remark of the page says.
    """
    case, metric = find_case(cases, cell), cell["metric"]
    if case is None or neutral(metric) is None or metric == "gain.wer":
        return None
    baseline = baseline_of(cases, cell, case)
    if any(c is None or c.failure or not c.rounds for c in (baseline, case)):
        return None
    part = metric.rpartition(".")[2]
    theirs, ours = (c.by_round([seconds_of(run, part) for run in c.rounds]) for c in (baseline, case))
    audio = [c.last["dataset"]["audio_seconds"] for c in (baseline, case)]
    found = ratio_of_rounds(ours, theirs, same_settings(baseline) == same_settings(case))
    if found is None:
        return None
    ends = (of_times(metric, times * audio[1] / audio[0]) for times in found)
    return tuple(sorted(ends))


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


SAME, NONE, REVERSED = "same direction", "no difference", "reversed"
ONE_ROUND = "one round: not judged"


def direction(interval, published, nothing=1):
    """Returns whether our 95 % interval lies on the side of `nothing` on which the published figure lies. `nothing` is
    the value that means no difference."""
    if interval is None:
        return ONE_ROUND
    low, high = interval
    if low <= nothing <= high:
        return NONE
    return SAME if (low > nothing) == (published > nothing) else REVERSED


def mark_of(cell, ours, interval=None):
    """Returns whether a comparison has the direction of the published one: SAME, NONE, REVERSED, ONE_ROUND. Returns
    None for cells that compare nothing, for published ones without a direction, and where nothing was run."""
    nothing, theirs = neutral(cell["metric"]), float(cell["published"])
    if ours is None or cell["class"] != "R" or nothing is None or theirs == nothing:
        return None
    if cell["metric"] == "gain.wer":
        return direction((ours, ours), theirs, nothing)
    return direction(interval, theirs, nothing)


def other_size(found, ours, theirs, nothing):
    """Returns the remark ", other size" for a mark SAME if one effect is more than twice the other, else nothing.

    An effect is the distance from `nothing`: 1.9 times as fast is an effect of 0.9, and 1.1 times one of 0.1."""
    return ", other size" if found == SAME and not 0.5 <= (ours - nothing) / (theirs - nothing) <= 2 else ""


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
        found = mark_of(cell, ours, interval)
        if found is None:
            return "similar" if 0.5 <= ours / theirs <= 2 else "differs"
        size = other_size(found, ours, theirs, neutral(cell["metric"]))
        ends = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
        return f"{found}{size}{ends}{', without interval' if cell['metric'] == 'gain.wer' else ''}"
    return ""
