"""Arms: curves that differ from a reference curve in one thing."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from speedbump.grid.axes import AXES, NOT_IN_SERIES, REST, unplain_axes

Row = dict[str, Any]

_SHARED = ("machine", "stack", "model", "weights", "device", "batch")
"""What a reference and its arms have in common."""
_FREE = ("n_prompt", "instrument", "dtype")
"""In what plain curves of one group may differ."""
_TELLING_NOTHING = ("instrument", "harness", "n_prompt", "dtype")
"""Arms along these alone make no mechanism study."""
_TOGETHER = ("lifetime", "order")
"""One thing, though two axes: an order is that of a persistent process."""
AXES_OF_ARMS = tuple(
    axis.name for axis in AXES if axis.name not in (*NOT_IN_SERIES, *_SHARED) and axis.name not in _TOGETHER
)
_INSTRUMENTS = ("step_sync", "free_running", "per_step", "memory")
"""Of curves, the preferred ones first; a profile is in none."""


@dataclass(frozen=True)
class Point:
    """One length of a curve: log seconds, the variance of their centre, and what the trend expects (None: no trend).

    state: normal, slow or unclear.  bound: the latency is a lower bound.
    """

    log_s: float
    variance: float
    log_expected_s: float | None
    state: str
    bound: bool


@dataclass(frozen=True)
class Regime:
    """An accepted slow regime, as in tables.REGIMES; None where it is open."""

    onset_low: int | None
    onset_high: int
    recovery_low: int
    recovery_high: int | None


@dataclass(frozen=True)
class Curve:
    """A series: its row of tables.SERIES, its points by length, and its accepted regimes."""

    row: Row
    points: Mapping[int, Point]
    regimes: tuple[Regime, ...]

    @property
    def series(self) -> str:
        return str(self.row["series"])

    def lengths(self, state: str) -> list[int]:
        """Lengths in that state, in order."""
        return sorted(n for n, point in self.points.items() if point.state == state)

    @property
    def regime(self) -> Regime | None:
        """The first regime."""
        return min(self.regimes, key=lambda regime: regime.onset_high, default=None)


@dataclass(frozen=True)
class Arm:
    """A curve that differs from ``base`` in ``axis`` alone, where it has ``value``.

    base: the reference, or its like with the arm's instrument, where the harness could not be observed as it was.
    """

    axis: str
    value: str
    curve: Curve
    base: Curve

    @property
    def priced(self) -> bool:
        """Whether its requests do other work than the reference's, and not the same under other circumstances."""
        circumstance = self.axis in ("ballast_gb", "watermark", "predecessor", "order")
        return not circumstance and not REST.fullmatch(self.value)


@dataclass(frozen=True)
class Reference:
    """The curve to explain, and its arms."""

    curve: Curve
    arms: tuple[Arm, ...]

    def along(self, axis: str) -> list[Arm]:
        """Arms along one axis, in the order of their values."""
        return [arm for arm in self.arms if arm.axis == axis]

    def arm(self, axis: str, *values: str) -> Arm | None:
        """The arm with the first of these values that was measured."""
        found = {arm.value: arm for arm in self.along(axis)}
        return next((found[value] for value in values if value in found), None)


def read_curves(series: pl.DataFrame, budgets: pl.DataFrame, regimes: pl.DataFrame) -> list[Curve]:
    """Every series that has a latency, without the lengths that were measured only while the machine was busy and not
    seen to be normal: what an arm changes cannot be told from them.
    """
    points: dict[str, dict[int, Point]] = {name: {} for name in budgets["series"].unique()}
    usable = ~pl.col("disturbed").fill_null(value=False) | (pl.col("state") == "normal")
    for row in budgets.filter(usable).iter_rows(named=True):
        points[row["series"]][row["n_gen"]] = _point(row)
    accepted: dict[str, list[Regime]] = {}
    for row in regimes.filter("accepted").iter_rows(named=True):
        accepted.setdefault(row["series"], []).append(Regime(**{k: row[k] for k in Regime.__dataclass_fields__}))
    return [
        Curve(row, points[row["series"]], tuple(accepted.get(row["series"], ())))
        for row in series.sort("series").iter_rows(named=True)
        if row["series"] in points
    ]


def find_references(curves: Iterable[Curve], around: Row | None = None) -> list[Reference]:
    """For each model, device, machine and stack, the plain curve that the study is around, else that with the most
    arms; none where no arm says anything of the cause.

    around: axes of the curve that the study is around, where it is around one.
    """
    chosen = {name: value for name, value in (around or {}).items() if name in _FREE}
    groups: dict[tuple[Any, ...], list[Curve]] = {}
    for curve in curves:
        groups.setdefault(tuple(curve.row[name] for name in _SHARED), []).append(curve)
    found = []
    for group in groups.values():
        candidates = [Reference(curve, _arms(curve, group)) for curve in group if not unplain_axes(curve.row)]
        best = max(candidates, key=lambda reference: _rank(reference, chosen), default=None)
        if best and any(arm.axis not in _TELLING_NOTHING for arm in best.arms):
            found.append(best)
    return found


def _rank(reference: Reference, chosen: Row) -> tuple[bool, int, bool, int]:
    row = reference.curve.row
    is_chosen = all(row[name] == value for name, value in chosen.items())
    return is_chosen, len(reference.arms), bool(reference.curve.regimes), -_INSTRUMENTS.index(row["instrument"])


def _arms(reference: Curve, group: Iterable[Curve]) -> tuple[Arm, ...]:
    apart = [(curve, _axes_apart(curve, reference)) for curve in group]
    alike = {curve.row["instrument"]: curve for curve, axes in apart if axes == ["instrument"]}
    found = []
    for curve, axes in apart:
        base = reference
        if axes == ["instrument", "harness"] and curve.row["instrument"] in alike:
            base = alike[curve.row["instrument"]]
            axes = ["harness"]
        if len(axes) == 1:
            found.append(Arm(axes[0], str(curve.row[axes[0]]), curve, base))
    return tuple(sorted(found, key=lambda arm: ((*AXES_OF_ARMS, "order").index(arm.axis), arm.value)))


def _axes_apart(curve: Curve, reference: Curve) -> list[str]:
    axes = [name for name in AXES_OF_ARMS if curve.row[name] != reference.row[name]]
    if "compile" in axes and curve.row["kv_cache"] == "static":
        axes.remove("kv_cache")  # what is compiled has a cache of fixed size
    return axes if curve.row["lifetime"] == "fresh" else [*axes, "order"]


def _point(row: Row) -> Point:
    log_s, bound = math.log(row["latency_s"]), bool(row["lower_bound"])
    known = not bound and row["low_s"] is not None and row["high_s"] is not None
    half = math.log(row["high_s"] / row["low_s"]) / 2 if known else 0.0
    expected = row["expected_s"]
    return Point(
        log_s=log_s,
        variance=(half / 2) ** 2,  # the interval is of Student's t with several degrees of freedom
        log_expected_s=math.log(expected) if expected else None,
        state=row["state"],
        bound=bound,
    )
