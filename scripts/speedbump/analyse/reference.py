"""A reference for a curve that is slow at every budget: the same series under another stack, or on another machine.

Such a curve looks smooth. Its twin, alike in every axis, may be normal where it is slow; but a stack or a machine may
also just be slower. So the ratio of the two is compared with that of the other series that both places share.
"""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from speedbump.analyse.curve import SLOW_FROM, Array
from speedbump.analyse.segments import Anatomy
from speedbump.grid.axes import AXES, NOT_IN_SERIES

LEAST_SHARED = 3
"""Budgets that both curves must have."""
LEAST_CALIBRATING = 2
"""Other series that both places must share, to say what ratio is usual. With fewer, another stack of the same machine
is taken to be about as fast (within SLOW_FROM), and another machine says nothing."""
STEADY = 1.25
"""A curve that is slow throughout is so by about the same factor: quartiles of the ratio lie within this."""

_AXES = [axis.name for axis in AXES if axis.name not in NOT_IN_SERIES]
Place = tuple[str | None, str | None]


@dataclass(frozen=True)
class Reference:
    """What settles that a curve is slow throughout.

    series, place: of the twin.  slowdown: of this curve against it, beyond the usual ratio of the two places,
    with the lower and upper end over the budgets.
    """

    series: str
    place: Place
    slowdown: float
    low: float
    high: float

    def told(self) -> str:
        """One clause for a reader."""
        where = ", ".join(part for part in self.place if part)
        return (
            f"slow at every budget: {self.slowdown:.1f} times ({self.low:.1f} to {self.high:.1f}) what {where} suggests"
        )


def find_references(identities: pl.DataFrame, found: dict[str, Anatomy]) -> dict[str, Reference]:
    """For every series without a slow stretch, the twin that shows it to be slow throughout, if any.

    identities: one row a series with the axes, machine and stack.  found: their anatomies.
    """
    places: dict[str, Place] = {s: (m, k) for s, m, k in identities.select("series", "machine", "stack").rows()}
    twins: dict[tuple[object, ...], list[str]] = {}
    for row in identities.select("series", *_AXES).rows():
        if row[0] in found and _is_plain(found[row[0]]):
            twins.setdefault(row[1:], []).append(row[0])
    ratios: dict[tuple[Place, Place], dict[str, Array]] = {}
    of: dict[tuple[str, Place], str] = {}
    for group in twins.values():
        for series in group:
            for twin in group:
                ratio = _ratio(found[series], found[twin]) if twin != series else np.empty(0)
                if len(ratio) >= LEAST_SHARED:
                    ratios.setdefault((places[series], places[twin]), {})[series] = ratio
                    of[series, places[twin]] = twin
    settled: dict[str, Reference] = {}
    for (here, there), by_series in ratios.items():
        for series, ratio in by_series.items():
            others = [float(np.median(r)) for s, r in by_series.items() if s != series]
            if len(others) < LEAST_CALIBRATING and here[0] != there[0]:
                continue
            usual = float(np.median(others)) if len(others) >= LEAST_CALIBRATING else 0.0
            doubt = max(abs(o - usual) for o in others) if len(others) >= LEAST_CALIBRATING else math.log(SLOW_FROM)
            beyond = ratio - usual
            low, high = np.quantile(beyond, [0.25, 0.75])
            if beyond.min() > math.log(SLOW_FROM) + doubt and high - low < math.log(STEADY):
                told = np.exp([np.median(beyond), beyond.min(), beyond.max()])
                settled.setdefault(series, Reference(of[series, there], there, *told.tolist()))
    return settled


def _is_plain(anatomy: Anatomy) -> bool:
    return anatomy.reading is not None and not anatomy.segments and not anatomy.curve.censored.any()


def _ratio(anatomy: Anatomy, twin: Anatomy) -> Array:
    """Log latency over the twin's, at the budgets that both have."""
    _, ours, theirs = np.intersect1d(anatomy.curve.budget, twin.curve.budget, return_indices=True)
    return np.asarray(anatomy.summary.centre[ours] - twin.summary.centre[theirs])
