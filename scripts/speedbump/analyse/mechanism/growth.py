"""How a memory counter grows: not at all, in proportion, or with the square."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import Array

FLAT = 0.15
"""Relative growth below which a counter is flat."""
_POWERS = np.round(np.arange(0.1, 3.01, 0.05), 2)
_LEAST_SD = 0.01
"""Of a counter, relative: other programs allocate too."""
_CHI2 = 3.84
LINEAR, QUADRATIC = (0.6, 1.4), 1.5
"""Powers within which growth is called linear, and from which on it is called quadratic."""


@dataclass(frozen=True)
class Growth:
    """kind: flat, linear, quadratic, or between (the data do not say).  power: of x in ``a + c * x ** power``, with its
    95 % interval; 0 when flat.  change: largest less smallest value.  n: values of x.
    """

    kind: str
    power: float
    low: float
    high: float
    change: float
    n: int


def fit_growth(x: Array, y: Array) -> Growth | None:
    """Fit ``y = a + c * x ** power`` with a and c not negative; None below three different x.

    x: above 0, such as tokens or requests.  y: bytes, one or several an x; their median counts.
    A counter cannot be negative at the start, which is what tells powers apart over a narrow range of x.
    Method: relative least squares for each power; the interval is where chi squared rises by at most 3.84, the
    standard deviation that of the best fit, or a hundredth where that is smaller.
    """
    places = np.unique(x)
    if len(places) < 3:
        return None
    y = np.array([np.median(y[x == place]) for place in places])
    change = float(y.max() - y.min())
    if y.max() <= 0 or change < FLAT * y.max():
        return Growth("flat", 0.0, 0.0, 0.5, change, len(places))
    if y[-1] < y[0]:
        return Growth("between", math.nan, 0.0, float(_POWERS[-1]), change, len(places))
    scaled = places / places.max()
    misfit = np.array([_misfit(scaled**power, y) for power in _POWERS])
    freedom = max(len(places) - 3, 1)
    variance = max(float(misfit.min()) / freedom, _LEAST_SD**2)
    inside = _POWERS[misfit <= misfit.min() + _CHI2 * variance]
    power, low, high = float(_POWERS[misfit.argmin()]), float(inside.min()), float(inside.max())
    if low >= QUADRATIC:
        kind = "quadratic"
    elif LINEAR[0] <= low and high <= LINEAR[1]:
        kind = "linear"
    else:
        kind = "between"
    return Growth(kind, power, low, high, change, len(places))


def _misfit(rise: Array, y: Array) -> float:
    """Sum of squared relative residuals of the best ``a + c * rise``, a and c not negative."""
    scale = np.maximum(y, FLAT * y.max())
    columns = np.column_stack([1 / scale, rise / scale])
    target = y / scale
    best, *_ = np.linalg.lstsq(columns, target, rcond=None)
    if (best < 0).any():
        alone = [max(float(column @ target / (column @ column)), 0.0) for column in columns.T]
        return min(float(((target - a * column) ** 2).sum()) for a, column in zip(alone, columns.T, strict=True))
    return float(((target - columns @ best) ** 2).sum())
