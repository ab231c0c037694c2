"""Patterns that repeat along the lengths: every second one slow, a saw-tooth."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Indices
from speedbump.analyse.evidence import CLEARLY
from speedbump.analyse.summary import Summary
from speedbump.analyse.trend import powers_of, relative_nnls

LEAST_PERIODS = 3
LEAST_BUDGETS = 8
EXPLAINED = 0.8
"""Share of the departures' variance that the place in the period must explain."""
SIGNIFICANCE = 1e-4
LONGEST_OF_REGIMES = 4
"""Slow stretches are told as regimes, not as a pattern, where they recur at longer periods than so many budgets."""
_TWO_LEVELS = 0.25
"""Two groups of places are two levels when within them they differ by less than this share of what is between."""
_ORDINALS = ("second", "third", "fourth")


@dataclass(frozen=True)
class Pattern:
    """period: tokens.  size: budgets in it.  height: slowest over fastest place in it.  lone: one place is slow and all
    others alike.
    """

    period: int
    size: int
    height: float
    lone: bool

    def told(self) -> str:
        """In words, without a full stop."""
        if self.lone and self.size - 2 < len(_ORDINALS):
            which = _ORDINALS[self.size - 2]
            return f"every {which} length (period {self.period} tokens) takes {self.height:.1f} times as long"
        return (
            f"latency repeats with a period of {self.period} tokens; the slowest lengths of it take "
            f"{self.height:.1f} times as long as the fastest"
        )


def find_pattern(curve: Curve, summary: Summary) -> Pattern | None:
    """The shortest period after which departures from a smooth trend repeat; None where there is none.

    Budgets that lie on a lattice of equal steps are grouped by their place in a period of 2, 3 ... steps, of which at
    least LEAST_PERIODS were measured. A pattern is told where the places explain EXPLAINED of the variance of the log
    departures (analysis of variance, F at SIGNIFICANCE over all periods tried), and the slowest lies SLOW_FROM, less
    two standard errors CLEARLY, above the fastest: tiles and pages make lower ones in a normal state.
    """
    if curve.n < LEAST_BUDGETS or curve.censored.any():
        return None
    step = int(np.gcd.reduce(np.diff(curve.budget).astype(np.int64)))
    sizes = range(2, int((curve.budget[-1] - curve.budget[0]) / step + 1) // LEAST_PERIODS + 1)
    terms = powers_of(curve.budget)
    lattice = (curve.budget.astype(np.int64) - int(curve.budget[0])) // step
    for size in sizes:
        place = lattice % size
        if np.bincount(place, minlength=size).min() < 2:
            continue
        found = _at(place, size, terms, summary)
        if found is not None and found.p * len(sizes) < SIGNIFICANCE:
            return Pattern(size * step, size, found.height, found.lone)
    return None


@dataclass(frozen=True)
class _Found:
    height: float
    lone: bool
    p: float


def _at(place: Indices, size: int, terms: Array, summary: Summary) -> _Found | None:
    """The pattern of one period, where the places in it explain the departures."""
    count = np.bincount(place, minlength=size)
    level = np.zeros(size)
    for _ in range(3):  # the trend of what is left, the levels around it
        centre = summary.centre - level[place]
        departure = summary.centre - np.log(terms @ relative_nnls(terms, centre, np.ones(len(centre))))
        level = np.bincount(place, departure, size) / count
    left = departure - level[place]
    total, within = float(((departure - departure.mean()) ** 2).sum()), float((left**2).sum())
    freedom = len(place) - size - 1
    if freedom < 1 or within > (1 - EXPLAINED) * total:
        return None
    variance = within / freedom
    slowest, fastest = int(level.argmax()), int(level.argmin())
    height = float(level[slowest] - level[fastest])
    error = math.sqrt(variance * (1 / count[slowest] + 1 / count[fastest]))
    if height < math.log(SLOW_FROM) or height - 2 * error < math.log(CLEARLY):
        return None
    f = (total - within) / (size - 1) / max(variance, 1e-12)
    others = np.delete(level, slowest)
    lone = float(np.ptp(others)) < _TWO_LEVELS * height
    p = float(fdtrc(size - 1, freedom, f))
    return _Found(math.exp(float(level[slowest] - others.mean()) if lone else height), lone, p)
