"""Ratios of two curves at the lengths both have, as the table of comparisons gives them."""

from dataclasses import dataclass
from typing import Literal

from speedbump.report.curves import Curve
from speedbump.report.study import Study
from speedbump.report.words import interval, times

Bound = Literal["", "at least", "at most"]
_TURNED: dict[str, Bound] = {"": "", "at least": "at most", "at most": "at least"}


@dataclass(frozen=True)
class Ratio:
    """Latency of one curve over another's at one length.

    low, high: 95 % interval of the ratio; None where a side has none.
    bound: ``at least`` or ``at most`` when one side is a lower bound of its latency, else empty.
    state, base_state: of the length on the one curve and on the other.
    disturbed: one of the two was measured only while the machine was busy, so that the ratio decides nothing; it has no
    interval.
    """

    n: int
    ratio: float
    low: float | None
    high: float | None
    bound: Bound
    state: str
    base_state: str
    latency_s: float
    base_s: float
    disturbed: bool = False

    @property
    def differs(self) -> bool:
        """Whether the interval leaves out 1. A bound alone differs when it lies on its own side of 1."""
        if self.disturbed:
            return False
        if self.bound:
            return self.ratio > 1 if self.bound == "at least" else self.ratio < 1
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def words(self) -> str:
        """``1.9× (1.7–2.1)``."""
        ends = interval(self.low, self.high)
        text = f"{self.bound} {times(self.ratio)}".strip()
        if self.disturbed:
            return f"{text} (machine busy)"
        return f"{text} ({ends})" if ends else text


def ratios(study: Study, curve: Curve, base: Curve) -> list[Ratio]:
    """``curve`` over ``base`` at their common lengths, increasing; curves that the table does not compare have none."""
    rows = study.compared.get((curve.series, base.series))
    turned = rows is None
    if rows is None:
        rows = study.compared.get((base.series, curve.series), [])
    own, others = (
        {n: (latency, state) for n, latency, state in one.budgets.select("n_gen", "latency_s", "state").iter_rows()}
        for one in (curve, base)
    )
    found = []
    for row in rows:
        value, low, high = row["ratio"], row["low"], row["high"]
        bound: Bound = row["bound"] or ""
        if turned:
            value, bound = 1 / value, _TURNED[bound]
            low, high = (None if end is None else 1 / end for end in (high, low))
        n, disturbed = row["n_gen"], bool(row["disturbed"])
        low, high = (None, None) if disturbed else (low, high)
        found.append(Ratio(n, value, low, high, bound, own[n][1], others[n][1], own[n][0], others[n][0], disturbed))
    return found
