"""95 % intervals of ratios, by the formulas of harness/results/statistics.cpp."""

import math
from statistics import fmean, variance

MANY = 1000  # as many degrees of freedom are as good as a normal distribution
RUN_DRIFT = 0.01  # kRunDrift of statistics.h: the standard deviation between runs, as a share of the mean


def student_t95(df):
    """Returns the t for which a Student variable lies within [-t, t] with a probability of 0.95."""
    from scipy.special import stdtrit  # slow to import, and most figures have no interval

    return float(stdtrit(df, 0.975))


def half_interval(values):
    """Returns half of the interval of the mean. It needs at least two values."""
    return student_t95(len(values) - 1) * math.sqrt(variance(values) / len(values))


def paired_ratio(a, b):
    """Returns (low, high) of b / a from rounds that were measured side by side; None for a single round."""
    logs = [math.log(y / x) for x, y in zip(a, b, strict=True)]
    if len(logs) < 2:
        return None
    half = student_t95(len(logs) - 1) * math.sqrt(variance(logs) / len(logs))
    return math.exp(fmean(logs) - half), math.exp(fmean(logs) + half)


def ratio_of_alike(a, b):
    """Returns (low, high) of b / a, by Student's interval with the variances of both sides pooled.

    It assumes that both sides scatter alike, and serves where there are too few values for Welch's interval. One side
    needs two values or more."""
    a, b = ([math.log(value) for value in values] for values in (a, b))
    df = len(a) + len(b) - 2
    squares = sum((len(logs) - 1) * variance(logs) for logs in (a, b) if len(logs) > 1)
    half = student_t95(df) * math.sqrt(squares / df * (1 / len(a) + 1 / len(b)))
    difference = fmean(b) - fmean(a)
    return math.exp(difference - half), math.exp(difference + half)


def unpaired_ratio(a, b, drift=0.0):
    """Returns (low, high) of b / a from rounds that are not paired, by Welch's interval; None where either side has a
    single round. `drift` is the standard deviation between the runs of a and b, as a share of the mean."""
    if min(len(a), len(b)) < 2:
        return None
    a, b = ([math.log(value) for value in values] for values in (a, b))
    parts = [(variance(logs) / len(logs), len(logs) - 1) for logs in (a, b)]
    total = sum(part for part, _ in parts) + 2 * drift**2
    squares = sum(part**2 / n for part, n in parts)
    difference, half = fmean(b) - fmean(a), 0.0
    if total > 0:
        df = min(MANY, total**2 / squares) if squares else MANY
        half = student_t95(int(df + 1e-9)) * math.sqrt(total)
    return math.exp(difference - half), math.exp(difference + half)


def ratio_of_rounds(a, b, side_by_side=True):
    """Returns (low, high) of b / a by the rule of ratio_within_run() in harness/results/metrics.h, but over all rounds.
    Returns None if either side has a single round and there are no two pairs. a and b are {(invocation, number of the
    round): value}.

    Two rounds of one invocation and number form a pair if the two cases were measured side by side. Without two pairs,
    the rounds are not paired. If they come from several invocations, the interval includes the drift between runs."""
    pairs = [key for key in a if key in b] if side_by_side else []
    if len(pairs) > 1:
        return paired_ratio([a[key] for key in pairs], [b[key] for key in pairs])
    invocations = {invocation for invocation, _ in (*a, *b)}
    return unpaired_ratio(list(a.values()), list(b.values()), RUN_DRIFT if len(invocations) > 1 else 0.0)
