"""95 % intervals of ratios, by the formulas of harness/results/statistics.cpp."""

import math
from statistics import fmean, variance


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


def unpaired_ratio(a, b):
    """Returns (low, high) of b / a from rounds that are not paired, by Welch's interval; None where either side has a
    single round."""
    if min(len(a), len(b)) < 2:
        return None
    a, b = ([math.log(value) for value in values] for values in (a, b))
    parts = [(variance(logs) / len(logs), len(logs) - 1) for logs in (a, b)]
    total = sum(part for part, _ in parts)
    difference, half = fmean(b) - fmean(a), 0.0
    if total > 0:
        df = total**2 / sum(part**2 / n for part, n in parts)
        half = student_t95(int(df + 1e-9)) * math.sqrt(total)
    return math.exp(difference - half), math.exp(difference + half)
