"""Steps: from one budget on everything takes longer, or less long, in proportion, and stays so.

A step is told from a slow regime, which returns, and from a bend, at which nothing jumps. On flat curves, and on
budgets far apart, a trend that only rises can bend into a step and make half of it look recovered; so the curve with
the step taken out is compared with the reading that knows regimes alone.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from speedbump.analyse.confidence import Interval, student_quantile
from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags, Indices
from speedbump.analyse.states import SLOW_UP_TO, Reading, find_states
from speedbump.analyse.summary import Summary
from speedbump.analyse.trend import BEND_SD, PRIOR_SD, SLOPE_SD, Trend, fit_normal_trend, powers_of, relative_nnls

LEAST_SIDE = 3
"""Budgets on either side of a step."""
REACH = 1.5
"""A step is called one when the budgets on either side of it reach this ratio: known regimes end before it."""
_LEAST_JUMP = math.log(1.25)
_SURELY = 3.0
"""A jump between two neighbours must exceed what their slopes explain by _LEAST_JUMP and so many standard errors."""
_AROUND = 8
_WINDOW = 3
"""Budgets on either side that give the slopes beside a jump."""
_CANDIDATES = 2
_REFITS = 1
_SEARCHED = 0.5
_EXPECTED_STEPS = 0.02
"""Of a curve, before anything is seen."""
_FLOOR_SD = 0.03
_MOST_ODDS = 12.0
"""One budget's log odds for either side of the step count at most so much: it may be an outlier."""
_PRIOR_DF = 5.0


@dataclass(frozen=True)
class Step:
    """slow: flags of the slow side, shape (n,): the budgets from the step on, or before it when it leads down.

    size: log latency of the slow side over the trend of the other.  error, freedom: of it.  p_slow_side: probability
    that each budget lies on the slow side.  reading: of the curve with the step taken out.  stays: enough was
    measured on both sides to call it a step; else it may as well be a regime of which one end lies outside.
    """

    slow: Flags
    size: float
    error: float
    freedom: float
    p_slow_side: Array
    reading: Reading
    stays: bool

    @property
    def up(self) -> bool:
        return not self.slow[0]

    @property
    def interval(self) -> Interval:
        """How many times as long the slow side takes."""
        half = float(student_quantile(self.freedom)) * self.error
        return Interval(math.exp(self.size), math.exp(self.size - half), math.exp(self.size + half))

    def level(self) -> Array:
        """Log latency that the step adds, shape (n,)."""
        return np.where(self.slow, self.size, 0.0)


def take_out(summary: Summary, level: Array) -> Summary:
    """The summary with so much log latency taken off every budget."""
    return replace(summary, centre=summary.centre - level)


def find_step(curve: Curve, summary: Summary, reading: Reading) -> Step | None:
    """The step of a curve, when a step explains it better than ``reading``, which knows regimes alone.

    Candidates are the largest jumps between neighbouring budgets, as long as later jumps do not undo them. At each,
    the size is the one with which a single trend fits both sides best.
    """
    x = np.log(curve.budget)
    for k, jump in _candidates(x, summary, curve.censored):
        slow = np.arange(curve.n) >= k if jump > 0 else np.arange(curve.n) < k
        found = _fit(curve, summary, slow, abs(jump))
        if found is None:
            continue
        size, inner = found
        if size < math.log(SLOW_FROM):
            continue
        cost = math.log(curve.n / _EXPECTED_STEPS) + math.log(2 * math.log(SLOW_UP_TO))
        if inner.score - cost > reading.score:
            return _describe(curve, summary, slow, size, inner)
    return None


def _candidates(x: Array, summary: Summary, censored: Flags) -> list[tuple[int, float]]:
    """First index beyond each jump worth a look, with the jump in log latency; the largest first.

    None where the jumps of the curve sum up to nothing: what goes up comes down again.
    """
    n = len(x)
    if n < 2 * LEAST_SIDE:
        return []
    z, gap = summary.centre, np.diff(x)
    before, after = _slopes(x, z)
    left, right = before[:-1], after[1:]  # beside the gap from i to i + 1
    steepest, flattest = np.fmax(left, right).clip(min=0), np.fmin(left, right).clip(min=0)
    rise = np.diff(z)
    up, down = rise - steepest * gap, rise - flattest * gap
    jump = np.where(up > 0, up, np.where(down < 0, down, 0.0))
    jump[np.isnan(jump)] = 0.0
    error = np.sqrt(summary.variance[1:] + summary.variance[:-1] + 2 * _FLOOR_SD**2)
    if not summary.df.any():  # single requests: their scatter from budget to budget is all that is known
        off = np.abs(rise - np.fmax((left + right) / 2, 0) * gap)
        error = np.fmin(error, max(1.4826 * float(np.nanmedian(off)), 2 * _FLOOR_SD))
    jump[(np.abs(jump) < np.maximum(_SURELY * error, _LEAST_JUMP)) | censored[1:] | censored[:-1]] = 0.0
    total = float(jump.sum())
    if abs(total) < _LEAST_JUMP:
        return []
    places = [k for k in range(LEAST_SIDE, n - LEAST_SIDE + 1) if jump[k - 1] * total > 0]
    places.sort(key=lambda k: -abs(jump[k - 1]))
    return [(k, float(jump[k - 1])) for k in places[:_CANDIDATES] if _stands_out(x, z, k)]


def _stands_out(x: Array, z: Array, k: int) -> bool:
    """Whether a jump at ``k`` explains the budgets around it clearly better than a curve bent once: a cheap look,
    since most jumps are noise.
    """
    around = slice(max(k - _AROUND, 0), k + _AROUND)
    own, rise = x[around] - x[k], z[around]
    if len(own) < 4 + LEAST_SIDE:
        return True
    design = np.column_stack([np.ones(len(own)), own, own**2, np.arange(len(x))[around] >= k])
    inverse = np.linalg.inv(design.T @ design)
    fit = inverse @ (design.T @ rise)
    variance = float(((rise - design @ fit) ** 2).sum()) / (len(own) - 4) + _FLOOR_SD**2
    return bool(fit[3] ** 2 > _SURELY**2 * variance * inverse[3, 3])


def _slopes(x: Array, z: Array) -> tuple[Array, Array]:
    """Log-log slope of the _WINDOW budgets that end at each, and of those that begin there; NaN for one alone."""
    n = len(x)
    sums = [np.concatenate([[0.0], np.cumsum(values)]) for values in (x, z, x * x, x * z)]
    ends = np.arange(1, n + 1)
    starts = np.maximum(ends - _WINDOW, 0)
    ends_after = np.minimum(np.arange(n) + _WINDOW, n)

    def slope(start: Indices, end: Indices) -> Array:
        count = end - start
        sx, sz, sxx, sxz = (total[end] - total[start] for total in sums)
        spread = sxx - sx * sx / count
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(count > 1, (sxz - sx * sz / count) / spread, np.nan)

    return slope(starts, ends), slope(np.arange(n), ends_after)


def _fit(curve: Curve, summary: Summary, slow: Flags, size: float) -> tuple[float, Reading] | None:
    """The step's size, and the reading of the curve without it; None where a side has too few normal budgets."""
    terms = powers_of(curve.budget)
    reading = None
    for refit in range(_REFITS + 1):
        reading = find_states(curve, take_out(summary, np.where(slow, size, 0.0)))
        if reading is None:
            return None
        normal = reading.normal(curve)
        if min((normal & slow).sum(), (normal & ~slow).sum()) < LEAST_SIDE:
            return None
        if refit < _REFITS:
            size = _best_size(terms, summary, reading.trend, normal, slow, size)
    assert reading is not None
    return size, reading


def _best_size(terms: Array, summary: Summary, trend: Trend, normal: Flags, slow: Flags, size: float) -> float:
    """The size with which one trend fits the normal budgets of both sides best, by weighted squares."""
    fitted, weight = terms[normal], 1 / (summary.variance[normal] + trend.sd**2)

    def misfit(size: float) -> float:
        z = summary.centre[normal] - np.where(slow[normal], size, 0.0)
        residual = np.log(fitted @ relative_nnls(fitted, z, weight) + 1e-300) - z
        return float((weight * residual**2 / (1 + weight * residual**2 / 9)).sum())

    bounds = (size - _SEARCHED, size + _SEARCHED)
    return float(minimize_scalar(misfit, bounds=bounds, method="bounded", options={"xatol": 0.003}).x)


def _describe(curve: Curve, summary: Summary, slow: Flags, size: float, reading: Reading) -> Step:
    x, normal = np.log(curve.budget), reading.normal(curve)
    k = int(np.flatnonzero(slow[1:] != slow[:-1])[0]) + 1
    scatter = max(reading.trend.sd, PRIOR_SD) ** 2
    weight = 1 / (summary.variance + scatter)[normal]
    place = x[normal] - x[normal].mean()
    design = np.column_stack([np.ones(len(place)), place, slow[normal]])
    information = design.T @ (weight[:, None] * design) + np.diag([0.0, SLOPE_SD**-2, 0.0])
    # budgets near one another share their departures from the trend; between the sides it may bend
    shared = scatter / 2 + (BEND_SD * (x[k] - x[k - 1]) / 2) ** 2
    error = math.sqrt(float(np.linalg.inv(information)[2, 2]) + shared)
    reaches = curve.budget[k - 1] >= REACH * curve.budget[0] and curve.budget[-1] >= REACH * curve.budget[k]
    side = _p_slow_side(summary, reading.trend, slow, size)
    return Step(slow, size, error, max(int(normal.sum()) - 3, 1) + _PRIOR_DF, side, reading, bool(reaches))


def _p_slow_side(summary: Summary, trend: Trend, slow: Flags, size: float) -> Array:
    """Probability of each budget to lie on the slow side, over all places where the step could be."""
    beyond = summary.centre - trend.log_latency
    variance = summary.variance + trend.sd**2
    odds = (size * (beyond - size / 2) / variance).clip(-_MOST_ODDS, _MOST_ODDS)
    if slow[0]:
        odds = odds[::-1]
    # place k: all from k on are slow; k = n: none
    place = np.concatenate([np.cumsum(odds[::-1])[::-1], [0.0]])
    place -= logsumexp(place)
    side = np.exp(np.logaddexp.accumulate(place[:-1])).clip(max=1.0)
    return side[::-1] if slow[0] else side


def read_open(curve: Curve, summary: Summary, step: Step) -> Reading | None:
    """The reading in which the slow side of a step is a regime with one end outside; None without a trend."""
    slow = step.slow | step.reading.slow
    normal = ~slow & ~curve.censored
    if normal.sum() < 2:
        return None
    trend = fit_normal_trend(np.log(curve.budget), powers_of(curve.budget), summary, normal)
    return Reading(slow, trend, step.reading.score)
