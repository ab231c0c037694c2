"""Whether latency falls anywhere as the budget grows: tests that need no trend."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from speedbump.analyse.curve import Flags
from speedbump.analyse.summary import Summary

USUAL_FALL = 1.25
"""Falls up to this ratio happen in a normal state: padding, tiles, neighbouring load."""
SIGNIFICANCE = 0.01
POOLED_MOST = 5
"""Budgets on either side of a regime's end that are pooled at most."""
_BETWEEN_BUDGETS_SD = 0.03
_PRIOR_DF = 3.0


@dataclass(frozen=True)
class Fall:
    """A fall: indices of the budgets before and after, the ratio of latencies, its p value.

    before, after: of a pooled fall the ones nearest to it.
    """

    before: int
    after: int
    ratio: float
    p: float

    @property
    def significant(self) -> bool:
        return self.p < SIGNIFICANCE


def largest_fall(summary: Summary, censored: Flags) -> Fall | None:
    """The most significant fall of latency from some budget to a larger one, whatever its size; None when there is
    no pair to test.

    Student's t on log latencies, one-sided, Bonferroni over all pairs. A censored budget's bound stands for its
    latency before a fall, which only makes the test stricter; after a fall it would not, so such pairs are left out.
    """
    return _most_significant(summary, censored, 1.0, 0.0)


def unusual_fall(summary: Summary, censored: Flags) -> Fall | None:
    """The same, tested against a fall by USUAL_FALL between budgets that scatter about their trend."""
    return _most_significant(summary, censored, USUAL_FALL, _BETWEEN_BUDGETS_SD)


def _most_significant(summary: Summary, censored: Flags, least: float, between_sd: float) -> Fall | None:
    before, after = np.triu_indices(len(summary.centre), 1)
    before, after = before[~censored[after]], after[~censored[after]]
    if not len(before):
        return None
    fall = summary.centre[before] - summary.centre[after]
    variance = summary.variance + between_sd**2
    freedom = np.minimum(summary.count[before], summary.count[after]) + _PRIOR_DF
    t = (fall - math.log(least)) / np.sqrt(variance[before] + variance[after])
    p = stdtr(freedom, -t)
    best = int(np.argmin(p))
    return Fall(
        int(before[best]), int(after[best]), math.exp(float(fall[best])), min(float(p[best]) * len(before), 1.0)
    )


def fall_after(stretches: Iterable[tuple[int, int]], summary: Summary, normal: Flags, censored: Flags) -> Fall | None:
    """The most significant fall from a slow stretch to the normal budgets next beyond it; None where none has any.

    stretches: first and last index of each.  The last budgets of the stretch are pooled with as many normal ones
    beyond, one to POOLED_MOST of each: with a single request a budget, one pair alone shows nothing. Latency grows
    with the budget, so pooling only hides falls. Student's t, Bonferroni over all pairs of budgets and widths.
    """
    n = len(summary.centre)
    n_tests = max(n * (n - 1) // 2, 1) * POOLED_MOST
    found: list[Fall] = []
    for first, last in stretches:
        beyond = last + 1 + np.flatnonzero(normal[last + 1 :] & ~censored[last + 1 :])
        for width in range(1, min(POOLED_MOST, last + 1 - first, len(beyond)) + 1):
            inside, outside = np.arange(last + 1 - width, last + 1), beyond[:width]
            fall = float(summary.centre[inside].mean() - summary.centre[outside].mean())
            error = math.sqrt(float(summary.variance[inside].sum() + summary.variance[outside].sum())) / width
            freedom = float(np.minimum(summary.count[inside], summary.count[outside]).sum()) + _PRIOR_DF
            p = float(stdtr(freedom, -fall / error)) * n_tests
            found.append(Fall(last, int(beyond[0]), math.exp(fall), min(p, 1.0)))
    return min(found, key=lambda fall: fall.p, default=None)
