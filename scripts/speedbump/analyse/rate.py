"""A rate that changes for good: from some length on every further token costs more, though no total jumps."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import fdtrc

from speedbump.analyse.confidence import Interval
from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.states import NORMAL_ABOVE
from speedbump.analyse.summary import Summary
from speedbump.analyse.trend import POWERS, powers_of, relative_nnls

BENDS = (0.0, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Powers of a curve that merely bends: more than a trend has, for one between two of those is no change of rate."""
BENDS_OF_STEPS = (0.0, 0.5, 1.0, 2.0)
"""The same of step time, which is what one more token adds to a total."""
LEAST_BESIDE = 3
"""Budgets, or steps, that must lie on either side of the change."""
REACH_BEFORE, REACH_BEYOND = 1.5, 1.25
"""Least ratio of the place to the smallest budget, and of the largest to the place: over less, a rate is no more than a
step or a tile.
"""
LEAST_RATIO = 1.5
"""A rate that may have risen by no more than this, at 95 %, is not told: curves bend so much in a normal state."""
SIGNIFICANCE = 0.001
_ROUGHNESS = 0.015
_ROUGHNESS_DF = 3.0
"""Standard deviation of normal budgets around a trend, and the degrees of freedom that it is worth."""
_COARSE = np.exp(np.arange(0.35, math.log(100), 0.35))
_FINE = np.exp(np.linspace(-0.4, 0.4, 21))
_FINEST = np.exp(np.linspace(-0.04, 0.04, 9))
"""Ratios tried, first coarsely, then around the best."""
_LEVELS = np.exp(np.arange(0.05, math.log(30), 0.15))
_PLACES = 40
_WITHIN = 3
"""Places tried at first: so many budgets at most; then so many a gap."""
_TREND_PARAMETERS, _CHANGE_PARAMETERS = 2, 2
_CHI2_95 = 3.84
_FOR_GOOD = 0.9
"""Share of the steps beyond a change that must be slow, and of those before it that must not."""


@dataclass(frozen=True)
class RateChange:
    """ratio: what each further token costs beyond the change over what it would have cost, with its 95 % interval.

    at: tokens where the rate changes, the likeliest.  low, high: between these, at 95 %.
    """

    at: float
    low: float
    high: float
    ratio: Interval

    def terms(self, budget: Array) -> Array:
        """Those of a trend with this change in it, shape (n, len(POWERS))."""
        at = np.power(self.at / budget[-1], POWERS)
        return _totals(powers_of(budget), budget > self.at, at, self.ratio.value)


def find_rate_change(curve: Curve, summary: Summary) -> RateChange | None:
    """The change of rate of a curve; None where a smooth trend does as well.

    The trend's terms, budget**p for p in POWERS, are taken to cost ``ratio`` times as much for every token beyond a
    place: S(n) up to it, S(place) + ratio (S(n) - S(place)) from there on. So a curve without a cache may change its
    rate as well as one with, and one that merely bends is fitted by the terms alone. Place and ratio: least squares
    of relative departures, by NNLS at each of a grid; against the trend without a change by an F test of two further
    parameters, at SIGNIFICANCE. The scatter is that around the better fit, moderated, and widened by what
    neighbouring budgets share. Interval: from the profile of the squares.

    Told only where the rate rises by SLOW_FROM and, at 95 %, by LEAST_RATIO; where the last budget takes NORMAL_ABOVE
    times what it would without the change; and where no level that stays, all totals so many times as large from one
    budget on, does as well.
    """
    known = ~curve.censored
    if known.sum() < 2 * LEAST_BESIDE:
        return None
    # without repeats it is the scatter of the budgets that tells the noise
    noise = np.where(summary.df > 0, summary.variance, 0.0)[known]
    profile = _Profile(curve.budget[known], summary.centre[known], noise, BENDS, _totals)
    change = profile.find()
    if change is None or profile.last_excess(change) < NORMAL_ABOVE or profile.may_be_level(change):
        return None
    return change


def find_change_of_steps(position: Array, log_s: Array, variance: Array) -> RateChange | None:
    """The same from the times of single steps: from some position on each takes ``ratio`` times as long, for good.

    position: steps from the beginning of a request, increasing, shape (n,).  log_s: log seconds of a step there.
    variance: of that.
    """
    if len(position) < 2 * LEAST_BESIDE:
        return None
    profile = _Profile(position, log_s, variance, BENDS_OF_STEPS, _levels)
    change = profile.find()
    if change is None:
        return None
    slow = log_s - profile.unchanged(change) > math.log(change.ratio.value) / 2
    beyond = position > change.at
    lasting = slow[beyond].mean() >= _FOR_GOOD and slow[~beyond].mean() <= 1 - _FOR_GOOD
    return change if lasting else None


def _totals(terms: Array, beyond: Flags, at: Array, ratio: float) -> Array:
    """Terms of totals whose rate is ``ratio`` times as high beyond a place. ``at``: their values there."""
    return np.where(beyond[:, None], at + ratio * (terms - at), terms)


def _levels(terms: Array, beyond: Flags, _at: Array, ratio: float) -> Array:
    """Terms that are ``ratio`` times as large beyond a place."""
    return np.where(beyond[:, None], ratio * terms, terms)


Powers = tuple[float, ...]
Changed = Callable[[Array, Flags, Array, float], Array]


class _Profile:
    """Squares of relative departures over places and ratios of a change: of the rate of totals, or of a level."""

    def __init__(self, budget: Array, centre: Array, noise: Array, powers: Powers, change: Changed) -> None:
        self.budget, self.centre, self.noise = budget, centre, noise
        self.powers, self.terms = powers, powers_of(budget, powers)
        self.change = change
        n = len(budget)
        inner = np.arange(LEAST_BESIDE - 1, n - LEAST_BESIDE)
        self.stride = _WITHIN * -(-len(inner) // _PLACES)
        share = np.arange(_WITHIN) / _WITHIN
        places = (budget[inner, None] + share * (budget[inner + 1] - budget[inner])[:, None]).ravel()
        self.places = places[(places >= REACH_BEFORE * budget[0]) & (places * REACH_BEYOND <= budget[-1])]
        self.freedom = n - _TREND_PARAMETERS - _CHANGE_PARAMETERS
        """At least 2, for LEAST_BESIDE."""
        self.weight = 1 / (noise + _ROUGHNESS**2 * _ROUGHNESS_DF / (_ROUGHNESS_DF + self.freedom))

    def find(self) -> RateChange | None:
        """The likeliest change, where it is significant and large enough."""
        if not len(self.places) or not self._significant(self._without()):  # no change could explain more
            return None
        place, ratio = self._likeliest()
        for fineness in (_FINE, _FINEST):
            self.weight = 1 / (self.noise + self._roughness(place, ratio))
            place, ratio = self._least(self._beside(place, _WITHIN), ratio * fineness)
        if not self._significant(self._without() - self._squares(place, ratio)):
            return None
        interval, low, high = self._interval(place, ratio)
        if ratio < SLOW_FROM or interval.low < LEAST_RATIO or math.isnan(interval.high):
            return None
        return RateChange(place, low, high, interval)

    def unchanged(self, change: RateChange) -> Array:
        """Log seconds that the fit expects without the change, shape (n,)."""
        return np.asarray(np.log(self.terms @ self._coefficients(change.at, change.ratio.value)))

    def last_excess(self, change: RateChange) -> float:
        """How many times as long the last budget takes as without the change."""
        changed = self._changed(change.at, change.ratio.value)
        coefficients = self._coefficients(change.at, change.ratio.value)
        return float((changed[-1] @ coefficients) / (self.terms[-1] @ coefficients))

    def may_be_level(self, change: RateChange) -> bool:
        """Whether a level that stays fits about as well."""
        level = _Profile(self.budget, self.centre, self.noise, self.powers, _levels)
        level.places = self.budget[1:-1]
        level.weight = self.weight
        return (
            level._squares(*level._least(level.places, _LEVELS))
            < self._squares(change.at, change.ratio.value) + _CHI2_95
        )

    def _significant(self, explained: float) -> bool:
        p = fdtrc(_CHANGE_PARAMETERS, self.freedom + _ROUGHNESS_DF, max(explained, 0.0) / _CHANGE_PARAMETERS)
        return float(p) < SIGNIFICANCE

    def _changed(self, place: float, ratio: float) -> Array:
        at = np.power(place / self.budget[-1], self.powers)
        return np.asarray(self.change(self.terms, self.budget > place, at, ratio))

    def _coefficients(self, place: float, ratio: float) -> Array:
        terms = self._changed(place, ratio)
        return relative_nnls(terms, self.centre, self.weight)

    def _departures(self, place: float, ratio: float) -> Array:
        terms = self._changed(place, ratio)
        return np.asarray((terms @ relative_nnls(terms, self.centre, self.weight)) * np.exp(-self.centre) - 1)

    def _squares(self, place: float, ratio: float) -> float:
        return float((self.weight * self._departures(place, ratio) ** 2).sum())

    def _without(self) -> float:
        return self._squares(self.budget[-1], 1.0)

    def _least(self, places: Array, ratios: Array) -> tuple[float, float]:
        _, place, ratio = min((self._squares(place, ratio), place, ratio) for place in places for ratio in ratios)
        return float(place), float(ratio)

    def _likeliest(self) -> tuple[float, float]:
        """Of some places and coarse ratios, then of all places and finer ratios nearby."""
        place, ratio = self._least(self.places[:: self.stride], _COARSE)
        return self._least(self._beside(place, self.stride), ratio * _FINE)

    def _beside(self, place: float, reach: int) -> Array:
        i = int(np.searchsorted(self.places, place))
        return np.asarray(self.places[max(i - reach, 0) : i + reach + 1])

    def _roughness(self, place: float, ratio: float) -> float:
        """Variance of budgets around the changed trend beyond their noise; what neighbours share counts more."""
        departures = self._departures(place, ratio)
        squares = float((departures**2).sum())
        excess = max(squares - float(self.noise.sum()), 0.0)
        variance = (_ROUGHNESS_DF * _ROUGHNESS**2 + excess) / (_ROUGHNESS_DF + self.freedom)
        alike = min(max(float(departures[1:] @ departures[:-1]) / max(squares, 1e-12), 0.0), 0.8)
        return variance * (1 + alike) / (1 - alike)

    def _interval(self, place: float, ratio: float) -> tuple[Interval, float, float]:
        """Ratios and places of which the squares are little larger than the least; ``high`` is NaN where the ratio has
        no upper end, for hardly anything is known of the rate before.
        """
        least = self._squares(place, ratio)
        limit = least + _CHI2_95 * max(1.0, least / self.freedom)
        beside = self._beside(place, 2 * _WITHIN)
        ends = []
        for direction in (-1, 1):
            end = ratio
            for stride in (0.3, 0.1, 0.02, 0.005):
                while 1 < end < _COARSE[-1]:
                    further = end * math.exp(direction * stride)
                    if min(self._squares(p, further) for p in beside) > limit:
                        break
                    end = further
            ends.append(end)
        low, high = ends
        around = self._beside(place, 4 * self.stride)
        places = [p for p in around if min(self._squares(p, ratio * fine) for fine in _FINE[::4]) <= limit]
        interval = Interval(ratio, low, math.nan if high >= _COARSE[-1] else high)
        return interval, float(min([place, *places])), float(max([place, *places]))
