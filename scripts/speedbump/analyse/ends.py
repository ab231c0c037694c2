"""The ends of a curve: slow budgets there have normal ones on one side only, and may pass for a bend."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.confidence import Interval, slowdown_interval
from speedbump.analyse.curve import Array, Curve
from speedbump.analyse.evidence import LEAST_NORMAL
from speedbump.analyse.states import Reading, emissions, log_probability, transitions
from speedbump.analyse.summary import Summary
from speedbump.analyse.trend import expect, fit_normal_trend

WIDEST = 3
POSSIBLE = 1.45
"""An end is doubtful when, against the trend of the others, its slow-down is estimated at this and more ..."""
LEAST = 0.8
"""... the interval's lower end is above this, ..."""
UNLIKELIER = 9.0
"""... and the log probability of that reading is at most so much below that of a normal curve."""

_WORTH_A_LOOK = math.log(1.3)


@dataclass(frozen=True)
class DoubtfulEnd:
    """Budgets ``first`` to ``last`` (indices, inclusive) at an end, and what they are against the others' trend."""

    first: int
    last: int
    slowdown: Interval


def find_doubtful_end(
    curve: Curve, summary: Summary, reading: Reading, log_budget: Array, terms: Array
) -> DoubtfulEnd | None:
    """The end of a curve without a slow stretch that could be slow after all; the likeliest, None for none.

    One to WIDEST budgets at either end are taken for slow, the trend is fitted to the others alone, and the
    end compared with it. Doubt is cheap for a curve of many budgets and dear for one of six; docs/regimes.md
    has the share of smooth curves doubted and of slow ends missed.

    reading: the likeliest one, with no slow budget.  terms: of its trend.
    """
    n = curve.n
    found: list[DoubtfulEnd] = []
    for width in range(1, min(WIDEST, n - LEAST_NORMAL) + 1):
        for first in (0, n - width):
            last = first + width - 1
            normal = ~curve.censored
            normal[first : last + 1] = False
            if normal.sum() < LEAST_NORMAL or curve.censored[first : last + 1].any():
                continue
            trend = fit_normal_trend(log_budget, terms, summary, normal)
            beyond = summary.centre - trend.log_latency
            if beyond[first : last + 1].mean() < _WORTH_A_LOOK:
                continue
            sd = np.sqrt(summary.variance + trend.sd**2)
            score = log_probability(~normal, emissions(beyond, sd, curve.censored), transitions(n))
            expectation = expect(trend, log_budget, summary, normal)
            slowdown = slowdown_interval(first, last, summary, expectation, normal, curve.censored)
            likely = score > reading.score - UNLIKELIER
            if likely and slowdown.value >= POSSIBLE and slowdown.low >= LEAST:
                found.append(DoubtfulEnd(first, last, slowdown))
    return max(found, key=lambda end: end.slowdown.low, default=None)
