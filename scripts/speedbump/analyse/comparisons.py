"""Pairs of series that differ in one axis, compared budget by budget."""

import re
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
_DEVICES = ("mps", "cuda", "cpu")


def compare_series(requests: pl.DataFrame, series: pl.DataFrame, budgets: pl.DataFrame) -> pl.DataFrame:
    """tables.COMPARISONS of a study's requests, series and budgets."""
    tokens = common_tokens(requests)
    points: dict[str, dict[int, Row]] = {}
    for row in budgets.join(tokens, on=["series", "n_gen"], how="left").sort("n_gen").iter_rows(named=True):
        points.setdefault(row["series"], {})[row["n_gen"]] = row
    rows = [
        row | {"axis": axis, "over": over["series"], "under": under["series"]}
        | {"over_value": str(over[axis]), "under_value": str(under[axis])}
        for axis, over, under in _pairs(series)
        for row in _compare(points.get(over["series"], {}), points.get(under["series"], {}))
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=COMPARISONS.schema)


def _pairs(series: pl.DataFrame) -> Iterator[tuple[str, Row, Row]]:
    """Every axis, and two series that differ in it alone, the usual or faster one last."""
    rows = series.sort("series").to_dicts()
    for axis in (*_AXES, "machine", "stack"):
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(_others(axis, row), []).append(row)
        for group in groups.values():
            for pair in combinations(group, 2):
                if pair[0][axis] != pair[1][axis]:
                    under, over = sorted(pair, key=lambda row: _rank(axis, row[axis]))
                    yield axis, over, under


def _others(axis: str, row: Row) -> tuple[Any, ...]:
    """What two series must share to be compared along an axis. Machines seldom have one stack, nor one kind of
    accelerator: along them the CPUs are compared, and the accelerators.
    """
    if axis == "machine":
        return (row["device"] == "cpu", *(row[name] for name in _AXES if name != "device"))
    return tuple(row[name] for name in (*_AXES, "machine", "stack") if name != axis)


def _rank(axis: str, value: Any) -> tuple[Any, ...]:
    """Order of an axis' values: the default before others, accelerators before the CPU, small before large, and older
    versions before newer.
    """
    if axis == "device":
        return (_DEVICES.index(value),)
    if axis == "stack":
        return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", value))
    return (value != DEFAULTS.get(axis), value)


def _compare(over: dict[int, Row], under: dict[int, Row]) -> Iterator[Row]:
    for n_gen, one in over.items():
        other = under.get(n_gen)
        ratio = other and latency_ratio(latency_of(one), latency_of(other))
        if other and ratio:
            known = one["tokens"] is not None and other["tokens"] is not None
            yield {
                "n_gen": n_gen,
                "ratio": ratio.value,
                "low": ratio.low,
                "high": None if one["lower_bound"] else ratio.high,
                "lower_bound": one["lower_bound"],
                "same_tokens": one["tokens"] == other["tokens"] if known else None,
            }
