"""Whether latency falls anywhere as the budget grows: a test that needs no trend."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from speedbump.analyse.curve import Flags
from speedbump.analyse.summary import Summary

LEAST_FALL = 1.25
"""Falls up to this ratio happen in a normal state: padding, tiles, neighbouring load."""
SIGNIFICANCE = 0.01
_BETWEEN_BUDGETS_SD = 0.03
_PRIOR_DF = 3.0


@dataclass(frozen=True)
class Fall:
    """The most significant fall: indices of the budgets before and after, the ratio of latencies, its p value."""

    before: int
    after: int
    ratio: float
    p: float

    @property
    def significant(self) -> bool:
        return self.p < SIGNIFICANCE


def largest_fall(summary: Summary, censored: Flags) -> Fall | None:
    """The most significant fall of latency from some budget to a larger one; None when there is no pair to test.

    Tested against a fall by LEAST_FALL: Student's t on log latencies, one-sided, Bonferroni over all pairs. A
    censored budget's bound stands for its latency before a fall, which only makes the test stricter; after
    a fall it would not, so such pairs are left out.
    """
    before, after = np.triu_indices(len(summary.centre), 1)
    before, after = before[~censored[after]], after[~censored[after]]
    if not len(before):
        return None
    fall = summary.centre[before] - summary.centre[after]
    variance = summary.variance + _BETWEEN_BUDGETS_SD**2
    freedom = np.minimum(summary.count[before], summary.count[after]) + _PRIOR_DF
    t = (fall - math.log(LEAST_FALL)) / np.sqrt(variance[before] + variance[after])
    p = stdtr(freedom, -t)
    best = int(np.argmin(p))
    return Fall(
        int(before[best]), int(after[best]), math.exp(float(fall[best])), min(float(p[best]) * len(before), 1.0)
    )
