"""Pairs of series of one machine and stack that differ in one axis, compared budget by budget.

What a stack or a machine changes is more than a ratio: see the package ``changes``.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import polars as pl

from speedbump.analyse.ratio import latency_of, latency_ratio
from speedbump.analyse.tokens import common_tokens
from speedbump.grid.axes import DEFAULTS
from speedbump.tables import COMPARISONS, SERIES

Row = dict[str, Any]
_AXES = tuple(name for name in SERIES.schema if name in DEFAULTS)
_TOGETHER = {"lifetime": ("lifetime", "order", "between_requests")}
"""Axes that vary together: an order is one of a persistent process."""
_DEVICES = ("mps", "cuda", "cpu")


def compare_series(requests: pl.DataFrame, series: pl.DataFrame, budgets: pl.DataFrame) -> pl.DataFrame:
    """tables.COMPARISONS of a study's requests, series and budgets."""
    tokens = common_tokens(requests)
    points: dict[str, dict[int, Row]] = {}
    for row in budgets.join(tokens, on=["series", "n_gen"], how="left").sort("n_gen").iter_rows(named=True):
        points.setdefault(row["series"], {})[row["n_gen"]] = row
    rows = [
        row | {"axis": axis, "over": over["series"], "under": under["series"]}
        | {"over_value": _value(axis, over), "under_value": _value(axis, under)}
        for axis, over, under in _pairs(series)
        for row in _compare(points.get(over["series"], {}), points.get(under["series"], {}))
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=COMPARISONS.schema)


def _pairs(series: pl.DataFrame) -> Iterator[tuple[str, Row, Row]]:
    """Every axis, and two series that differ in it alone, the usual or faster one last."""
    rows = series.sort("series").to_dicts()
    for axis in _AXES:
        varied = _TOGETHER.get(axis, (axis,))
        if any(axis in others and axis != first for first, others in _TOGETHER.items()):
            continue
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            shared = tuple(row[name] for name in (*_AXES, "machine", "stack") if name not in varied)
            groups.setdefault(shared, []).append(row)
        for group in groups.values():
            for pair in combinations(group, 2):
                if any(pair[0][name] != pair[1][name] for name in varied):
                    under, over = sorted(pair, key=lambda row: [_rank(name, row[name]) for name in varied])
                    yield axis, over, under


def _rank(axis: str, value: Any) -> tuple[Any, ...]:
    """Order of an axis' values: the default before others, accelerators before the CPU, small before large."""
    return (_DEVICES.index(value),) if axis == "device" else (value != DEFAULTS.get(axis), value)


def _value(axis: str, row: Row) -> str:
    """The axis' value; of axes that vary together, those that are not at their default besides."""
    others = [name for name in _TOGETHER.get(axis, ()) if name != axis and row[name] != DEFAULTS[name]]
    return ", ".join(str(row[name]) for name in (axis, *others))


def _compare(over: dict[int, Row], under: dict[int, Row]) -> Iterator[Row]:
    for n_gen, one in over.items():
        other = under.get(n_gen)
        if other is None or (one["lower_bound"] and other["lower_bound"]):
            continue
        known = one["tokens"] is not None and other["tokens"] is not None
        yield {
            "n_gen": n_gen,
            **_ratio(one, other),
            "same_tokens": one["tokens"] == other["tokens"] if known else None,
            "disturbed": bool(one["disturbed"] or other["disturbed"]),
        }


def _ratio(one: Row, other: Row) -> Row:
    """Ratio, its interval, and whether it is a bound; one of the two latencies may be a lower bound."""
    ratio = latency_ratio(latency_of(one), latency_of(other))
    if ratio is not None:
        bounded = {"high": None, "bound": "at least"} if one["lower_bound"] else {"high": ratio.high, "bound": None}
        return {"ratio": ratio.value, "low": ratio.low, **bounded}
    turned = latency_ratio(latency_of(other), latency_of(one))
    assert turned is not None
    return {"ratio": 1 / turned.value, "low": None, "high": 1 / turned.low, "bound": "at most"}
