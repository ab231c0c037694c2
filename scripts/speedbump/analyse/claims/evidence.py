"""Evidence: series with their budgets and regimes, in one form for what is measured and what is published."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from speedbump.analyse.confidence import Interval
from speedbump.analyse.ratio import latency_of, latency_ratio
from speedbump.grid.axes import AXES, DEFAULTS

_FREE = ("weights", "harness", "n_gen", "process")
"""Axes that a claim leaves open; any other is at its default unless the claim names it."""
_NAMED = tuple(axis.name for axis in AXES if axis.name not in _FREE)

DETAILS = pl.Schema(
    {
        "series": pl.String,
        "n_gen": pl.Int64,
        "repeated": pl.Boolean,
        "prefill_share": pl.Float64,
        "live_bytes": pl.Float64,
        "system_bytes": pl.Float64,
        "tokens": pl.String,
    }
)
"""What a budget needs beside tables.BUDGETS; see Point."""


class AbsentError(Exception):
    """The evidence lacks what a claim is about; the message says what."""


class BusyError(AbsentError):
    """It was measured, but while the machine was busy, so that it decides nothing."""


@dataclass(frozen=True)
class Point:
    """One budget of a series.

    latency: seconds, with its 95 % interval; a lower bound where ``high`` is NaN.  repeated: its spread was
    measured; if not, the interval rests on a spread that is assumed, and is not shown.  state: normal, slow
    or unclear.  prefill_share: of the latency.  live_bytes, system_bytes: the largest seen, held by live tensors
    and in use on the whole machine.  tokens: hash of what was generated.  The last four are None where unknown.
    """

    latency: Interval
    repeated: bool
    state: str
    prefill_share: float | None
    live_bytes: float | None
    system_bytes: float | None
    tokens: str | None


@dataclass(frozen=True)
class Regime:
    """An accepted slow regime; budgets as in tables.REGIMES, None where open."""

    first_slow: int
    last_slow: int
    onset_low: int | None
    onset_high: int
    recovery_low: int
    recovery_high: int | None
    slowdown: float


@dataclass(frozen=True)
class Series:
    """One series: its axes, place, verdict, budgets in order, and accepted regimes in order.

    busy: budgets that were measured only while the machine was busy, and not seen to be normal: they are no points.
    """

    axes: Mapping[str, Any]
    machine: str
    stack: str
    verdict: str
    reason: str | None
    points: Mapping[int, Point]
    regimes: tuple[Regime, ...]
    busy: frozenset[int] = frozenset()

    @property
    def model(self) -> str:
        return str(self.axes["model"])

    @property
    def worst(self) -> Regime | None:
        """The regime of the largest slow-down."""
        return max(self.regimes, key=lambda regime: regime.slowdown, default=None)

    def ratio(self, over: int, under: int) -> Interval | None:
        """Latency at one budget over that at another; None over a lower bound."""
        return latency_ratio(self.points[over].latency, self.points[under].latency)

    def span(self) -> str:
        """``128 to 768 tokens``."""
        every = {*self.points, *self.busy}
        return f"{min(every)} to {max(every)} tokens"


@dataclass(frozen=True)
class Evidence:
    """What claims are checked on. Measured evidence belongs to one machine and stack: its series are ``here``;
    ``everywhere`` has those of all machines and stacks. Of what is published all is both.
    """

    published: bool
    here: tuple[Series, ...]
    everywhere: tuple[Series, ...]

    def series(self, *budgets: int, **axes: Any) -> Series:
        """The series with these axes that has the budgets; of several, the one with the most.

        Raises AbsentError.
        """
        every = list(matching(self.here, axes))
        found = [series for series in every if series.points and set(budgets) <= set(series.points)]
        if not found:
            if any(series.busy and set(budgets) <= {*series.points, *series.busy} for series in every):
                raise BusyError(f"the machine was busy while {axes_in_words(axes)} was measured")
            where = f" at {' and '.join(map(str, budgets))} tokens" if budgets else ""
            raise AbsentError(f"needs {axes_in_words(axes)}{where}")
        return max(found, key=lambda series: len(series.points))

    def partner(self, of: Series, **axes: Any) -> Series:
        """The series with these axes that shares the most budgets with another. Raises AbsentError."""
        found = [series for series in matching(self.here, axes) if set(series.points) & set(of.points)]
        if not found:
            if any((set(series.points) | series.busy) & set(of.points) for series in matching(self.here, axes)):
                raise BusyError(f"the machine was busy while {axes_in_words(axes)} was measured")
            raise AbsentError(f"needs {axes_in_words(axes)} at the same budgets")
        return max(found, key=lambda series: len(set(series.points) & set(of.points)))

    def several(self, models: Iterable[str], **axes: Any) -> list[Series]:
        """For each of the models its series with the most budgets, at least two. Raises AbsentError without any."""
        models = tuple(models)
        found = []
        for model in models:
            own = [s for s in matching(self.here, {**axes, "model": model}) if len({*s.points, *s.busy}) > 1]
            found += [max(own, key=lambda series: len(series.points))] if own else []
        if not found:
            raise AbsentError(f"needs curves of {', '.join(models)} {axes_in_words(axes)}")
        return found


def matching(every: Iterable[Series], axes: Mapping[str, Any]) -> Iterator[Series]:
    """The series that agree with the axes named, and with the defaults of those that are not."""
    wanted = {name: axes.get(name, DEFAULTS[name]) for name in _NAMED}
    return (series for series in every if all(series.axes[name] == value for name, value in wanted.items()))


def axes_in_words(axes: Mapping[str, Any]) -> str:
    """``gpt2-medium on mps (instrument step_sync)``."""
    others = [f"{name} {value}" for name, value in axes.items() if name not in ("model", "device")]
    words = [str(axes["model"])] if "model" in axes else []
    words += [f"on {axes['device']}"] if "device" in axes else []
    return " ".join([*words, f"({', '.join(others)})"] if others else words)


def memory_gb(machine: str) -> int | None:
    """The memory that a machine's slug names."""
    match = re.search(r"-(\d+)gb", machine)
    return int(match[1]) if match else None


def assemble(series: pl.DataFrame, budgets: pl.DataFrame, regimes: pl.DataFrame, details: pl.DataFrame) -> list[Series]:
    """Series from tables.SERIES, BUDGETS and REGIMES, and from ``details``, which has the schema DETAILS."""
    rows = budgets.join(details, on=["series", "n_gen"], how="left").sort("n_gen")
    points: dict[str, dict[int, Point]] = {}
    busy: dict[str, set[int]] = {}
    for row in rows.iter_rows(named=True):
        if row["disturbed"] and row["state"] != "normal":
            busy.setdefault(row["series"], set()).add(row["n_gen"])
        else:
            points.setdefault(row["series"], {})[row["n_gen"]] = _point(row)
    accepted: dict[str, list[Regime]] = {}
    for row in regimes.filter("accepted").sort("first_slow").iter_rows(named=True):
        regime = Regime(**{name: row[name] for name in Regime.__dataclass_fields__})
        accepted.setdefault(row["series"], []).append(regime)
    return [
        Series(
            axes={name: row[name] for name in _NAMED},
            machine=row["machine"],
            stack=row["stack"],
            verdict=row["verdict"],
            reason=row["reason"],
            points=points.get(row["series"], {}),
            regimes=tuple(accepted.get(row["series"], ())),
            busy=frozenset(busy.get(row["series"], ())),
        )
        for row in series.iter_rows(named=True)
    ]


def _point(row: Mapping[str, Any]) -> Point:
    kept = ("state", "prefill_share", "live_bytes", "system_bytes", "tokens")
    return Point(latency=latency_of(row), repeated=bool(row["repeated"]), **{name: row[name] for name in kept})
