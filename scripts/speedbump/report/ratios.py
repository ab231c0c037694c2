"""Ratios of two curves at the lengths both have, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from speedbump.analyse.confidence import Interval
from speedbump.analyse.ratio import latency_ratio
from speedbump.report.curves import Curve
from speedbump.report.words import interval, times


@dataclass(frozen=True)
class Ratio:
    """Latency of one curve over another's at one length.

    low, high: interval of the ratio; None where a side has none.
    bound: ``at least`` or ``at most`` when one side is a lower bound of its latency, else empty.
    state, base_state: of the length on the one curve and on the other.
    """

    n: int
    ratio: float
    low: float | None
    high: float | None
    bound: Literal["", "at least", "at most"]
    state: str
    base_state: str
    latency_s: float
    base_s: float

    @property
    def differs(self) -> bool:
        """Whether the interval leaves out 1. A bound alone differs when it lies on its own side of 1."""
        if self.bound:
            return self.ratio > 1 if self.bound == "at least" else self.ratio < 1
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def words(self) -> str:
        """``1.9× (1.7–2.1)``."""
        ends = interval(self.low, self.high)
        text = f"{self.bound} {times(self.ratio)}".strip()
        return f"{text} ({ends})" if ends else text


def ratios(curve: Curve, base: Curve, comparisons: int = 1) -> list[Ratio]:
    """``curve`` over ``base`` at their common lengths; lengths that are bounds on both sides say nothing.

    Intervals hold at 95 % together for ``comparisons`` of them (Bonferroni, logarithms taken as normal).
    """
    normal = NormalDist()
    wider = normal.inv_cdf(1 - 0.025 / max(1, comparisons)) / normal.inv_cdf(0.975)
    columns = ["n_gen", "latency_s", "low_s", "high_s", "lower_bound", "state"]
    base_rows = {row[0]: row for row in base.budgets.select(columns).iter_rows()}
    found = []
    for n, latency, low, high, bound, state in curve.budgets.select(columns).iter_rows():
        _, base_latency, base_low, base_high, base_bound, base_state = base_rows.get(n, (None,) * len(columns))
        if base_latency is None or (bound and base_bound):
            continue
        value = latency / base_latency
        ends = None
        if None not in (low, high, base_low, base_high) and not bound and not base_bound:
            ends = latency_ratio(Interval(latency, low, high), Interval(base_latency, base_low, base_high))
        found.append(
            Ratio(
                n=n,
                ratio=value,
                low=value * (ends.low / value) ** wider if ends else None,
                high=value * (ends.high / value) ** wider if ends else None,
                bound="at least" if bound else "at most" if base_bound else "",
                state=state,
                base_state=base_state,
                latency_s=latency,
                base_s=base_latency,
            )
        )
    return found


def most_changed(found: Sequence[Ratio]) -> Ratio:
    """The ratio farthest from 1."""
    return max(found, key=lambda ratio: abs(math.log(ratio.ratio)))
