"""Intervals: of a centre, of a slow-down."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from speedbump.analyse.curve import Array, Flags
from speedbump.analyse.summary import PRIOR_DF, Summary
from speedbump.analyse.trend import Expectation

LEVEL = 0.95
SLOW_SD = 0.12
"""Least standard deviation of log repeats in the slow state, and the degrees of freedom it is worth."""
_SLOW_DF = 2.0
_TREND_PRIOR_DF = 5.0


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; ``high`` is NaN for a lower bound."""

    value: float
    low: float
    high: float


def student_quantile(df: float | Array) -> Array:
    """Two-sided 95 % quantile of Student's t; df may be any positive number."""
    return np.asarray(stdtrit(df, 0.5 + LEVEL / 2))


def centre_interval(summary: Summary) -> tuple[Array, Array]:
    """95 % interval of every budget's centre, in log seconds.

    Degrees of freedom: those of the repeats with one process, of the processes with several, and PRIOR_DF
    for the moderated variance.
    """
    df = PRIOR_DF + np.where(summary.processes > 1, summary.processes - 1, summary.df)
    half = student_quantile(df) * np.sqrt(summary.variance)
    return summary.centre - half, summary.centre + half


def slowdown_interval(
    first: int, last: int, summary: Summary, expectation: Expectation, normal: Flags, censored: Flags
) -> Interval:
    """Slow-down of the budgets ``first`` to ``last`` (indices, inclusive) against what the trend expects there.

    Geometric mean over the budgets. Variance of its log: that of the slow repeats, pooled over the segment
    with SLOW_SD at two degrees of freedom, or, where every budget has several processes, that between them if
    it is larger; and that of the expectation, which neighbouring budgets share. Degrees of freedom: Welch &
    Satterthwaite. With one process a budget the interval holds within one process. A censored budget enters
    with its bound: the value and the lower end are then lower bounds, and there is no upper end.
    """
    at = np.arange(first, last + 1)
    slow_by = summary.centre[at] - expectation.log_latency[at]
    df = max(float(summary.df[at].sum()), 1.0)
    within = float((summary.df[at] * summary.spread[at]).sum()) / df if summary.df[at].any() else summary.pooled
    within = (within * df + max(summary.pooled, SLOW_SD**2) * _SLOW_DF) / (df + _SLOW_DF)
    size = len(at)
    of_slow = within * float((1 / summary.count[at]).sum()) / size**2
    slow_df = df + _SLOW_DF
    between = float(summary.variance[at].sum()) / size**2
    if (summary.processes[at] > 1).all() and between > of_slow:
        of_slow, slow_df = between, float((summary.processes[at] - 1).sum()) + PRIOR_DF
    elif summary.unrest:
        of_slow += summary.unrest**2 * float((1 / summary.processes[at]).sum()) / size**2
    of_trend = float(expectation.variance[at].mean())
    variance = of_slow + of_trend
    trend_df = max(int(normal.sum()) - 2, 1) + _TREND_PRIOR_DF
    freedom = variance**2 / (of_slow**2 / slow_df + of_trend**2 / trend_df)
    half = float(student_quantile(freedom)) * math.sqrt(variance)
    middle = float(slow_by.mean())
    high = math.nan if censored[at].any() else math.exp(middle + half)
    return Interval(math.exp(middle), math.exp(middle - half), high)
