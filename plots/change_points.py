"""Finds the points at which a series of figures changes, with a bounded rate of false findings.

The method is E-divisive: Matteson and James, "A nonparametric approach for multiple change point analysis of
multivariate data", JASA 109, 2014. The energy statistic of all distances between points finds the split whose parts
lie furthest apart. The split is a change point where fewer than LEVEL of random orders of the same points have a
split that is as good. Each part is then tested in the same way. A series without any change yields a change point
with a probability of at most LEVEL, since the first test must find one and all orders are equally likely.
"""

from dataclasses import dataclass

import numpy as np

LEVEL = 0.01  # probability of a false change in a series without any
ORDERS = 999  # random orders in a test, besides the one that was measured
LEAST = 3  # least number of points on each side of a change


@dataclass
class Change:
    index: int  # the first point after the change
    p: float
    before: float  # mean of the points since the previous change, or since the begin
    after: float


def energies(distances):
    """Returns the energy statistic of every split of the first k points into [0, t) and [t, k).

    The statistic says by how much points of different sides lie farther apart than points of one side. The result
    has the shape [..., t - LEAST, k - 2 LEAST] for matrices of distances [..., n, n]. Prefixes of the series are
    tested too, so that a series which leaves its level and comes back has a change point."""
    n = distances.shape[-1]
    sums = distances.cumsum(-1).cumsum(-2)
    t = np.arange(LEAST, n - LEAST + 1)[:, None]
    k = np.arange(2 * LEAST, n + 1)[None, :]
    m = np.maximum(k - t, 2)  # the lines below exclude splits that leave too few points
    left, upper, whole = sums[..., t - 1, t - 1], sums[..., t - 1, k - 1], sums[..., k - 1, k - 1]
    across, right = upper - left, whole - 2 * upper + left
    energy = 2 * across / (t * m) - left / (t * (t - 1)) - right / (m * (m - 1))
    return np.where(k - t >= LEAST, energy * t * m / (t + m), -np.inf)


def best_split(values, generator):
    """Returns (index, p) of the split whose parts lie furthest apart; p is 1 where there is none."""
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
    """Returns the change points of a series in the order of time. Equal values give equal results."""
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
