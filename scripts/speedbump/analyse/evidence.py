"""Whether a stretch that looks slow is accepted as a slow regime, and if not, why."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.chance import CONSENSUS, Disturbances, disturbed_processes
from speedbump.analyse.confidence import Interval
from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.summary import Summary
from speedbump.analyse.trend import POWERS

CLEARLY = 1.25
"""The interval's lower end must clear the trend by this factor."""
AGREES = 1.1
"""So must the single requests of a lone budget by this one: one that does not was in the normal state."""
LEAST_NORMAL = 3
LEAST_PROBABILITY = 0.4
"""Of the slow state, at the likeliest budget of the stretch; the interval must clear the trend as well."""
CHANCE = 0.01
"""Largest probability that chance disturbances make such a stretch somewhere in the series."""


@dataclass(frozen=True)
class Neighbours:
    """A stretch against the slower of its normal neighbours; NaN when it has none.

    slowdown: geometric mean of the stretch's latencies, each over what is expected there, over the same of the
    neighbour, so that lengths far apart compare.  ratio: of the latencies themselves, untouched by any trend.
    lowest: the ratio, less twice its standard error.
    """

    slowdown: float
    ratio: float
    lowest: float


def compare_neighbours(first: int, last: int, summary: Summary, expected: Array, normal: Flags) -> Neighbours:
    """The stretch against the normal budgets next to it.  expected: log seconds of a normal budget, shape (n,)."""
    left, right = np.flatnonzero(normal[:first]), np.flatnonzero(normal[last + 1 :])
    beside = [int(left[-1])] if len(left) else []
    beside += [last + 1 + int(right[0])] if len(right) else []
    if not beside:
        return Neighbours(math.nan, math.nan, math.nan)
    at = slice(first, last + 1)
    size = last + 1 - first
    beyond = summary.centre - expected
    slowdown = float(beyond[at].mean() - beyond[beside].max())
    slower = max(beside, key=lambda i: float(summary.centre[i]))
    ratio = float(summary.centre[at].mean() - summary.centre[slower])
    error = math.sqrt(float(summary.variance[at].sum()) / size**2 + float(summary.variance[slower]))
    return Neighbours(math.exp(slowdown), math.exp(ratio), math.exp(ratio - 2 * error))


@dataclass(frozen=True)
class Grounds:
    """What a stretch is judged by. Arrays have one value a budget; expected: log seconds of a normal budget."""

    curve: Curve
    summary: Summary
    normal: Flags
    expected: Array
    p_slow: Array
    requests: Disturbances


def why_not_accepted(grounds: Grounds, first: int, last: int, slowdown: Interval, neighbours: Neighbours) -> str | None:
    """The first reason against the stretch ``first`` to ``last`` (indices, inclusive); None: it is a slow regime."""
    curve, normal, at = grounds.curve, grounds.normal, slice(first, last + 1)
    where = span(curve, first, last)
    if slowdown.value < SLOW_FROM or slowdown.low < CLEARLY:
        high = "" if math.isnan(slowdown.high) else f" to {slowdown.high:.2f}"
        return (
            f"{where}: {slowdown.value:.2f} times the trend (95 % from {slowdown.low:.2f}{high}) is too little to tell"
        )
    disagreement = _disagreement(grounds, first, last)
    if disagreement:
        return disagreement
    if curve.published is None and grounds.requests.of_segment(first, last) > CHANCE:
        return f"{where}: so few slow requests may be chance"
    if curve.n_processes[at].min() > 1:
        processes = disturbed_processes(curve, grounds.expected, normal)
        if processes.of_segment(first, last) > CHANCE:
            return f"{where}: so few slow processes may be chance, for others were slow and then were not"
    n_normal = int(normal.sum())
    if n_normal < LEAST_NORMAL and not neighbours.lowest > SLOW_FROM * _steepest_growth(grounds, first, last):
        return f"{where}: only {n_normal} normal budgets to compare with"
    if grounds.p_slow[at].max() < LEAST_PROBABILITY:
        return f"{where}: the slow and the normal reading are about equally likely"
    if curve.disturbed[at].all():
        return f"{where}: the machine was busy while this was measured"
    return None


def _steepest_growth(grounds: Grounds, first: int, last: int) -> float:
    """What a normal curve can grow by up to the stretch's end at most; none where normal budgets are on both sides."""
    budget, normal = grounds.curve.budget, grounds.normal
    closed = normal[:first].any() and normal[last + 1 :].any()
    return 1.0 if closed else float(budget[last] / budget[max(first - 1, 0)]) ** POWERS[-1]


def _disagreement(grounds: Grounds, first: int, last: int) -> str | None:
    """Requests, or processes, of a lone budget that do not agree on its state."""
    curve = grounds.curve
    if first != last or not curve.repeats[first]:
        return None
    clearly = grounds.expected[first] + math.log(AGREES)
    slow = [float(np.mean(values > clearly)) for values in curve.repeats[first]]
    n_slow_processes = sum(share >= 0.5 for share in slow)
    where = span(curve, first, last)
    if len(slow) > 1 and n_slow_processes <= 2 * len(slow) / 3 and n_slow_processes < len(slow):
        return f"{where}: slow in {n_slow_processes} of {len(slow)} processes"
    values = curve.pooled(first)
    if len(slow) == 1 and len(values) >= 3 and slow[0] < CONSENSUS:
        return f"{where}: {int((values > clearly).sum())} of {len(values)} requests slow, the others normal"
    return None


def span(curve: Curve, first: int, last: int) -> str:
    """``at 512 tokens`` or ``from 512 to 624 tokens``."""
    low, high = int(curve.budget[first]), int(curve.budget[last])
    return f"at {low} tokens" if low == high else f"from {low} to {high} tokens"
