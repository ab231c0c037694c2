"""Budgets that are set aside before a curve is judged: stopped too early to say anything, or too fast to believe."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.states import Reading, find_states
from speedbump.analyse.summary import Summary, summarise
from speedbump.analyse.trend import Expectation, expect, fit_normal_trend, powers_of

FAST_FROM = 1.4
"""A budget so many times below the trend of the others is suspiciously fast: ended early, or answered from a cache."""
_WIDEST = 2
_MOST = 0.2
"""Share of budgets that can be suspiciously fast; more are a pattern of the curve."""
_LEAST_LEFT = 3
_BESIDE = 2
"""Others on either side: beside a single one at the end of a curve, that one may be slow instead."""
_SURELY = 4.0
"""Standard errors below the trend: of hundreds of budgets hardly one lies there by chance."""


@dataclass(frozen=True)
class Aside:
    """The budgets set aside: a curve of their own.

    fast: flags; the others were stopped before a normal request would have finished.  expected: log seconds of a normal
    budget, NaN where not known.  Arrays of shape (n,).
    """

    curve: Curve
    fast: Flags
    expected: Array

    @property
    def stopped(self) -> Flags:
        return ~self.fast


def fast_budgets(curve: Curve, summary: Summary, reading: Reading | None) -> Flags:
    """Budgets that took far less than both their neighbours, or than the trend, and than the others suggest.

    Latency does not fall and rise again in a normal state; but a normal budget between two slow ones looks alike. So
    the others are read alone: such a budget must lie surely below their trend, beside normal budgets.

    reading: of the whole curve; None when it has no two normal budgets.
    """
    none = np.zeros(curve.n, bool)
    known = np.flatnonzero(~curve.censored)
    z, least = summary.centre[known], math.log(FAST_FROM)
    suspected = none.copy()
    if reading is not None:
        suspected = reading.normal(curve) & (summary.centre < reading.trend.log_latency - least)
    for width in range(1, min(_WIDEST, len(known) - 2) + 1):
        inside = z[1:-1] if width == 1 else np.maximum(z[1:-2], z[2:-1])
        dips = 1 + np.flatnonzero(inside < np.minimum(z[: -width - 1], z[width + 1 :]) - least)
        for i in dips:
            suspected[known[i : i + width]] = True
    left = ~suspected
    if not suspected.any() or suspected.sum() > max(_MOST * curve.n, 1) or (left & ~curve.censored).sum() < _LEAST_LEFT:
        return none
    others = curve.only(left)
    of_others = summarise(others)
    alone = find_states(others, of_others)
    if alone is None or alone.normal(others).sum() < max(_LEAST_LEFT, others.n / 2):
        return none
    normal = none.copy()
    normal[left] = alone.normal(others)
    expectation = expectation_at(curve, summary, normal)
    beyond = summary.centre - expectation.log_latency
    surely = beyond + _SURELY * np.sqrt(summary.variance + expectation.variance + alone.trend.sd**2) < 0
    fast = suspected & (beyond < -least) & surely
    places = np.flatnonzero(left)
    for place in np.flatnonzero(fast).tolist():
        before, after = places[places < place][-_BESIDE:], places[places > place][:_BESIDE]
        fast[place] = min(len(before), len(after)) == _BESIDE and normal[[before[-1], after[0]]].all()
    return fast


def silent_budgets(curve: Curve, expected: Array | None) -> Flags:
    """Budgets whose requests were stopped before they were surely slow: their bound says nothing.

    expected: log seconds of a normal budget; None where there is no trend, and no bound says anything.
    """
    if expected is None:
        return curve.censored
    return curve.censored & ~(curve.bound >= expected + math.log(SLOW_FROM))


def expectation_at(curve: Curve, summary: Summary, normal: Flags) -> Expectation:
    """What every budget would take if it were normal, by the trend of these."""
    x = np.log(curve.budget)
    return expect(fit_normal_trend(x, powers_of(curve.budget), summary, normal), x, summary, normal)
