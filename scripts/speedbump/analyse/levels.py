"""Levels: a slow regime may be slow by several factors, one after the other."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import Array

CLOSEST = 1.5
"""Neighbouring levels closer than this ratio are one level."""


@dataclass(frozen=True)
class Level:
    """Budgets ``first`` to ``last`` (indices from the regime's first budget, inclusive) and their slow-down."""

    first: int
    last: int
    slowdown: float


def split_levels(log_slowdown: Array, variance: Array) -> list[Level]:
    """The levels of a regime, in order; one level is the usual answer.

    log_slowdown: of each budget, shape (n,).  variance: of each, shape (n,).
    Method: optimal partition by weighted squares with a penalty per level (Jackson et al. 2005), then the
    closest neighbours are merged until all differ by CLOSEST.
    """
    n = len(log_slowdown)
    penalty = 2 * math.log(n + 1) + 4
    weight = 1 / variance
    sums, squares, weights = (
        np.concatenate([[0.0], np.cumsum(values)])
        for values in (weight * log_slowdown, weight * log_slowdown**2, weight)
    )
    cost = np.full(n + 1, -penalty)
    begins = np.zeros(n + 1, int)
    for end in range(1, n + 1):
        start = np.arange(end)
        misfit = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (weights[end] - weights[start])
        total = cost[start] + penalty + misfit
        begins[end] = int(np.argmin(total))
        cost[end] = total[begins[end]]
    edges = [n]
    while edges[-1]:
        edges.append(int(begins[edges[-1]]))
    edges.reverse()
    while len(edges) > 2:
        means = np.diff(sums[edges]) / np.diff(weights[edges])
        gaps = np.abs(np.diff(means))
        closest = int(np.argmin(gaps))
        if gaps[closest] >= math.log(CLOSEST):
            break
        del edges[closest + 1]
    return [
        Level(start, end - 1, math.exp(float(log_slowdown[start:end].mean())))
        for start, end in itertools.pairwise(edges)
    ]
