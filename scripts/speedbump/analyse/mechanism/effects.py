"""What an arm does to the slow-down: how much of it stays, where it appears anew, and its price elsewhere."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from speedbump.analyse.confidence import Interval, student_quantile
from speedbump.analyse.mechanism.arms import Curve, Point

_LEAST_SD = 0.01
"""Of the logarithm of any latency: nothing is known better than to a hundredth."""
_PRICED = 3
"""Lengths from which the price is told apart from slowness: the smallest, farthest from any onset."""


@dataclass(frozen=True)
class Effect:
    """An arm against its reference.

    kept: for each length slow in the reference, the share of its extra time that the arm keeps: 0, it is gone; 1, it
    stays; more, it is worse.  gained: for each length normal in the reference, the extra time that the arm has there,
    as a share of what the regime has on average.  Both are (value, variance) by length, the arm's price taken off.
    inside, outside: latency over the reference's, at slow lengths and at lengths normal in both; None without any.
    slowdown: what stays of the slow-down, as a factor; None without a regime.
    """

    kept: dict[int, tuple[float, float]]
    gained: dict[int, tuple[float, float]]
    inside: Interval | None
    outside: Interval | None
    slowdown: Interval | None
    n_inside: int
    n_outside: int


def slow_downs(curve: Curve) -> dict[int, float]:
    """Log slow-down against the trend at the clearly slow lengths: those of at least half the largest. What an arm does
    to a slight slow-down is lost in the noise.
    """
    every = {
        n: curve.points[n].log_s - expected
        for n in curve.lengths("slow")
        if (expected := curve.points[n].log_expected_s) is not None
    }
    most = max(every.values(), default=0.0)
    return {n: value for n, value in every.items() if value >= most / 2}


def normal_lengths(curve: Curve) -> list[int]:
    """Lengths that are normal; of a curve without a regime all, for doubt is no reason to leave a price untold."""
    return curve.lengths("normal") if curve.regimes else sorted(curve.points)


def effect_of(arm: Curve, reference: Curve, priced: bool) -> Effect:
    """How the arm's latencies differ from the reference's, at the lengths that both have.

    priced: whether the arm's requests themselves do other work, whose time is taken off before slowness is looked for.
    """
    slow = slow_downs(reference)
    normal = [n for n in normal_lengths(reference) if n in arm.points]
    over = {n: _log_ratio(arm.points[n], reference.points[n]) for n in normal}
    usual = fmean(slow.values()) if slow else 0.0
    price = median(over[n][0] for n in normal[:_PRICED]) if normal and priced else 0.0
    both = [n for n in slow if n in arm.points and not (arm.points[n].bound and reference.points[n].bound)]
    inside = {n: _log_ratio(arm.points[n], reference.points[n]) for n in both}
    logs = {n: (slow[n] + value - price, variance) for n, (value, variance) in inside.items() if normal or not priced}
    kept = {n: share(value, variance, slow[n]) for n, (value, variance) in logs.items()}
    gained = {n: share(value - price, variance, usual) for n, (value, variance) in over.items()} if usual else {}
    alike = [over[n] for n in normal if abs(over[n][0] - price) < max(usual / 2, math.log(1.4))]
    return Effect(
        kept=kept,
        gained=gained,
        inside=_factor(mean_interval(list(inside.values()))),
        outside=_factor(mean_interval(alike)),
        slowdown=_factor(mean_interval(list(logs.values()))),
        n_inside=len(inside),
        n_outside=len(alike),
    )


def share(log_ratio: float, variance: float, log_slowdown: float) -> tuple[float, float]:
    """Extra time as a share of a slow-down's, with its variance."""
    whole = math.expm1(log_slowdown)
    return math.expm1(log_ratio) / whole, (math.exp(log_ratio) / whole) ** 2 * variance


def mean_interval(values: Sequence[tuple[float, float]]) -> Interval | None:
    """Mean of (value, variance) pairs with its 95 % interval; None of none.

    The variance is that of the measurements, or that between the values where it is larger.
    """
    if not values:
        return None
    numbers = np.array([value for value, _ in values])
    size = len(numbers)
    measured = float(np.mean([variance for _, variance in values])) / size
    between = float(numbers.var(ddof=1)) / size if size > 1 else 0.0
    half = 2 * math.sqrt(measured)
    if between > measured:
        half = float(student_quantile(size + 2)) * math.sqrt(between)
    value = float(numbers.mean())
    return Interval(value, value - half, value + half)


def largest(values: dict[int, tuple[float, float]]) -> tuple[int, Interval] | None:
    """The length of the largest value, and that value with its interval."""
    if not values:
        return None
    at = max(values, key=lambda n: values[n][0])
    interval = mean_interval([values[at]])
    assert interval is not None
    return at, interval


def _log_ratio(over: Point, under: Point) -> tuple[float, float]:
    return over.log_s - under.log_s, max(over.variance + under.variance, _LEAST_SD**2)


def _factor(interval: Interval | None) -> Interval | None:
    return interval and Interval(*(math.exp(end) for end in (interval.value, interval.low, interval.high)))
