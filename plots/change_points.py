"""Since when is a series of figures different? Change points with a bounded rate of false ones.

E-divisive (Matteson and James, "A nonparametric approach for multiple change point analysis of
multivariate data", JASA 109, 2014): the split of a series that sets its parts furthest apart, by the
energy statistic of all distances between points, is a change point where fewer than LEVEL of the
random orders of the same points have a split that does so as far. Then each part is looked at in the
same way. A series without any change yields one, or more, with a probability of LEVEL at most: the
first test must find something, and under the null hypothesis all orders are equally likely.
"""

from dataclasses import dataclass

import numpy as np

LEVEL = 0.01  # probability of a false change in a series without any
ORDERS = 999  # random orders in a test, besides the one that was measured
LEAST = 3  # points on each side


@dataclass
class Change:
    index: int  # of the first point after it
    p: float
    before: float  # means of the points between it and its neighbours, or the ends
    after: float


def energies(distances):
    """Of every split of the first k points into [0, t) and [t, k), as [..., t - LEAST, k - 2 LEAST] for
    matrices of distances [..., n, n]: by how much points of both sides lie farther apart than those of
    one. Fewer than all points are looked at so that a series which comes back to where it was is seen to
    have left."""
    n = distances.shape[-1]
    sums = distances.cumsum(-1).cumsum(-2)
    t = np.arange(LEAST, n - LEAST + 1)[:, None]
    k = np.arange(2 * LEAST, n + 1)[None, :]
    m = np.maximum(k - t, 2)  # splits that leave too few points are taken out below
    left, upper, whole = sums[..., t - 1, t - 1], sums[..., t - 1, k - 1], sums[..., k - 1, k - 1]
    across, right = upper - left, whole - 2 * upper + left
    energy = 2 * across / (t * m) - left / (t * (t - 1)) - right / (m * (m - 1))
    return np.where(k - t >= LEAST, energy * t * m / (t + m), -np.inf)


def best_split(values, generator):
    """(index, p) of the split that sets the parts furthest apart; p of 1 where there is none."""
    n = len(values)
    if n < 2 * LEAST or np.ptp(values) == 0:
        return 0, 1.0
    distances = np.abs(values[:, None] - values[None, :])
    found = energies(distances)
    as_far, tried = 0, 0
    while tried < ORDERS and (1 + as_far) / (1 + ORDERS) <= LEVEL:  # else no further order helps
        count = min(ORDERS - tried, max(1, 100_000 // n**2))  # 1 MB at a time
        orders = generator.permuted(np.tile(np.arange(n), (count, 1)), axis=1)
        shuffled = distances[orders[:, :, None], orders[:, None, :]]
        as_far += int((energies(shuffled).max((-2, -1)) >= found.max() * (1 - 1e-12)).sum())
        tried += count
    return LEAST + int(found.max(-1).argmax()), (1 + as_far) / (1 + ORDERS)


def change_points(values, seed=0):
    """Of a series in the order of time; the same for the same values."""
    values = np.asarray(values, float)
    generator = np.random.default_rng(seed)
    found = {}

    def divide(begin, end):
        index, p = best_split(values[begin:end], generator)
        if p <= LEVEL:
            found[begin + index] = p
            divide(begin, begin + index)
            divide(begin + index, end)

    divide(0, len(values))
    edges = [0, *sorted(found), len(values)]
    means = [values[a:b].mean() for a, b in zip(edges, edges[1:])] if len(values) else []
    return [Change(at, found[at], means[i], means[i + 1]) for i, at in enumerate(sorted(found))]
