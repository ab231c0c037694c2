"""What each arm does for a user: its slow-down inside the regime, its price outside."""

import math
from statistics import fmean
from typing import Any

from speedbump.analyse.confidence import Interval
from speedbump.analyse.mechanism.arms import Arm
from speedbump.analyse.mechanism.effects import Effect, slow_downs
from speedbump.analyse.mechanism.sight import Sight

Row = dict[str, Any]


def mitigation_rows(sight: Sight) -> list[Row]:
    """A row of tables.MITIGATIONS for every arm, those first that leave least of the slow-down, then the cheapest."""
    rows = [_row(sight, arm, sight.effect(arm)) for arm in sight.reference.arms]
    rows = [row for row in rows if row["n_inside"] or row["n_outside"]]
    rows.sort(key=lambda row: (_or_last(row["slowdown"]), _or_last(row["price"]), row["axis"], row["value"]))
    return [{**row, "rank": rank} for rank, row in enumerate(rows, 1)]


def _row(sight: Sight, arm: Arm, effect: Effect) -> Row:
    curve = sight.reference.curve
    slow = slow_downs(arm.base)
    return {
        "machine": curve.row["machine"],
        "stack": curve.row["stack"],
        "reference": curve.series,
        "series": arm.curve.series,
        "axis": arm.axis,
        "value": arm.value,
        "reference_slowdown": math.exp(fmean(slow.values())) if slow else None,
        **_columns("slowdown", effect.slowdown),
        **_columns("inside", effect.inside),
        **_columns("price", effect.outside),
        "n_inside": effect.n_inside,
        "n_outside": effect.n_outside,
        "lower_bound": any(arm.curve.points[n].bound for n in slow if n in arm.curve.points),
    }


def _columns(name: str, interval: Interval | None) -> Row:
    ends = (None, None, None) if interval is None else (interval.value, interval.low, interval.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def _or_last(value: float | None) -> float:
    return math.inf if value is None else value
