"""The normal trend: the latency that a series' normal budgets follow, and what it expects elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from speedbump.analyse.curve import Array, Flags
from speedbump.analyse.summary import Summary

POWERS = (0.0, 0.5, 1.0, 2.0, 3.0)
PRIOR_SD = 0.05
"""Between-budget standard deviation expected of a normal curve, in log seconds."""
_PRIOR_DF = 5.0
SD_RANGE = (0.03, 0.12)
_REWEIGHTINGS = 3
_LEAST_WEIGHT = 0.02

CORRELATION_LENGTH = 0.35
"""Distance in log budget over which departures of normal budgets from the trend stay alike."""
PRIOR_SLOPE = 1.2
SLOPE_SD = 0.5
"""Log-log slope expected of a trend, and its standard deviation: what is left to go by where the normal budgets
lie close together."""
PRIOR_REACH = np.array([-1.0, 1.0])
PRIOR_WEIGHT = np.full(2, SLOPE_SD**-2)
"""The same as two further points, at these log distances from the middle of the normal budgets."""
BEND_SD = 0.3
"""Standard deviation of a further log-log slope over a stretch without normal budgets."""


@dataclass(frozen=True)
class Trend:
    """log_latency: at every budget, log seconds.  sd: of normal budgets around it, in logs."""

    log_latency: Array
    sd: float


@dataclass(frozen=True)
class Expectation:
    """log_latency: what a normal budget would take, log seconds, shape (n,).  variance: of that, shape (n,)."""

    log_latency: Array
    variance: Array


def powers_of(budget: Array, powers: Sequence[float] = POWERS) -> Array:
    """The terms of the trend, relative to the largest budget; shape (n, len(powers))."""
    return np.stack([(budget / budget[-1]) ** power for power in powers], axis=1)


def fit_normal_trend(log_budget: Array, terms: Array, summary: Summary, normal: Flags) -> Trend:
    """Monotone trend of latency over the budget, fitted to the normal budgets only.

    Latency is a non-negative combination of budget**p for p in POWERS, so that it can be affine, quadratic
    (no KV cache) or a power law, and can never fall. It is a function of the labels alone.

    The slope has a weak prior, PRIOR_SLOPE with SLOPE_SD, for normal budgets close together.

    terms: powers_of(budget).  normal: which budgets to fit, at least two.
    Raises ValueError when fewer than two budgets are normal.
    Method: relative least squares by NNLS (Lawson & Hanson 1974, scipy.optimize.nnls), three Cauchy
    reweightings; the spread between budgets from the median absolute residual, shrunk towards PRIOR_SD.
    """
    count = int(normal.sum())
    if count < 2:
        raise ValueError(f"a trend needs two normal budgets, got {count}")
    fitted, centre, variance = terms[normal], summary.centre[normal], summary.variance[normal]
    noise = median(summary.variance)
    precision, robustness = 1 / (variance + PRIOR_SD**2), np.ones(count)
    freedom = max(count - 2, 0)
    place = float(log_budget[normal].mean())
    level = centre - PRIOR_SLOPE * (log_budget[normal] - place)
    prior_terms = np.exp(np.multiply.outer(place + PRIOR_REACH - log_budget[-1], POWERS))
    for iteration in range(_REWEIGHTINGS):
        weight = precision * robustness
        anchor = float((weight * level).sum() / weight.sum())
        coefficients = relative_nnls(
            np.concatenate([fitted, prior_terms]),
            np.concatenate([centre, anchor + PRIOR_SLOPE * PRIOR_REACH]),
            np.concatenate([weight, PRIOR_WEIGHT]),
        )
        residual = centre - np.log(fitted @ coefficients + 1e-300)
        excess = max((1.4826 * median(np.abs(residual))) ** 2 - noise, 0.0)
        shrunk = (_PRIOR_DF * PRIOR_SD**2 + freedom * excess) / (_PRIOR_DF + freedom)
        sd = min(max(np.sqrt(shrunk), SD_RANGE[0]), SD_RANGE[1])
        scaled = residual / np.sqrt(variance + sd**2)
        # gentle at first, while the fit still leans towards what will turn out an outlier
        robustness = 1 / (1 + (scaled / 2.5) ** 2) ** 2 if iteration == 0 else 1 / (1 + (scaled / 2) ** 2)
        robustness = np.maximum(robustness, _LEAST_WEIGHT)
        precision = 1 / (variance + sd**2)
    return Trend(np.log(terms @ coefficients + 1e-300), float(sd))


def relative_nnls(terms: Array, log_latency: Array, weight: Array) -> Array:
    """Coefficients >= 0 that minimise sum of weight * (fit / latency - 1)**2."""
    root = np.sqrt(weight)
    design = terms * (np.exp(-log_latency) * root)[:, None]
    scale = np.sqrt((design * design).sum(axis=0)) + 1e-300
    coefficients, _ = nnls(design / scale, root)
    return np.asarray(coefficients / scale)


def expect(trend: Trend, log_budget: Array, summary: Summary, normal: Flags) -> Expectation:
    """What every budget would take if it were normal, and how well that is known.

    The trend, plus the departures of the normal budgets nearby (simple kriging with an exponential
    covariance, correlation length CORRELATION_LENGTH in log budget). Its variance adds up kriging, level and
    slope of the trend, and a bend of unknown slope that grows with the distance to the normal budgets.
    """
    x, known = log_budget, log_budget[normal]
    residual, variance = (summary.centre - trend.log_latency)[normal], summary.variance[normal]
    sill = trend.sd**2
    between = sill * np.exp(-np.abs(known[:, None] - known) / CORRELATION_LENGTH)
    towards = sill * np.exp(-np.abs(x[:, None] - known) / CORRELATION_LENGTH)
    between[np.diag_indices(len(known))] += variance + sill / 4
    solved = np.linalg.solve(between, np.column_stack([residual, towards.T]))
    kriging = np.maximum(sill - np.einsum("ij,ji->i", towards, solved[:, 1:]), 0)
    weight = 1 / (variance + sill)
    middle = (weight * known).sum() / weight.sum()
    leverage = (weight * (known - middle) ** 2).sum() + SLOPE_SD**-2
    line = 1 / weight.sum() + (x - middle) ** 2 / leverage
    bend = (BEND_SD * distance_to(known, x)) ** 2
    return Expectation(trend.log_latency + towards @ solved[:, 0], kriging + line + bend)


def distance_to(known: Array, x: Array) -> Array:
    """How far each x lies from the known places: beyond them the distance to the nearest, between two of
    them a * b / (a + b) of its distances to both, as an interpolated line would err.
    """
    after = np.searchsorted(known, x)
    left = x - known[np.maximum(after - 1, 0)]
    right = known[np.minimum(after, len(known) - 1)] - x
    outside = (after == 0) | (after == len(known))
    between = left * right / np.maximum(left + right, 1e-12)
    return np.where(outside, np.where(after == 0, right, left), between).clip(min=0)


def median(values: Array) -> float:
    """Median of a short array, several times faster than numpy's."""
    ordered = np.sort(values)
    half = len(ordered) // 2
    return float(ordered[half]) if len(ordered) % 2 else float(ordered[half - 1] + ordered[half]) / 2
