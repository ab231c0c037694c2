"""Curves: a series with its name for readers, its lengths and its slow regimes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from speedbump.grid.axes import AXES, DEFAULTS, NOT_IN_SERIES
from speedbump.grid.stack import stack_order
from speedbump.report.words import prose
from speedbump.tables import VERDICTS

SERIES_AXES = tuple(axis.name for axis in AXES if axis.name not in NOT_IN_SERIES)
DEVICES = {"mps": "MPS", "cuda": "CUDA", "cpu": "CPU"}
ORDER = {
    verdict: rank
    for rank, verdict in enumerate(("slow regimes", "excess", "step", "rate change", "undetermined", "smooth"))
}
AFFECTED = ("slow regimes", "excess", "step", "rate change")
assert set(ORDER) < set(VERDICTS)


@dataclass(frozen=True)
class Regime:
    """A slow regime or a step: the columns of the regimes table."""

    series: str
    regime: int
    accepted: bool
    reason: str | None
    first_slow: int
    last_slow: int
    onset_low: int | None
    onset_high: int | None
    recovery_low: int | None
    recovery_high: int | None
    open_left: bool
    open_right: bool
    slowdown: float
    slowdown_low: float | None
    slowdown_high: float | None
    slowdown_neighbour: float | None
    lower_bound: bool
    confirmed: bool
    levels: str | None
    worst_n_gen: int
    worst_s: float
    worst_expected_s: float | None
    kind: str | None = None

    @property
    def is_step(self) -> bool:
        return self.kind in ("step up", "step down")

    @property
    def begins(self) -> int:
        """The first length beyond a step's edge."""
        if self.kind == "step down" and self.recovery_high is not None:
            return self.recovery_high
        return self.first_slow


@dataclass(frozen=True)
class Curve:
    """One series. ``key`` is short and safe in an HTML id.

    model and device are titles; ``apart`` are the words that tell the curve from the study's others.  fits: what would
    fit the memory in its place, as estimate.what_fits says; None where the curve itself does.
    """

    key: str
    model: str
    device: str
    apart: tuple[str, ...]
    verdict: str
    row: dict[str, Any]
    regimes: tuple[Regime, ...]
    budgets: pl.DataFrame
    fits: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """For tables: ``GPT-2 Medium, MPS, cache off``."""
        return ", ".join((self.model, self.device, *self.apart))

    @property
    def spoken(self) -> str:
        """For sentences: ``GPT-2 Medium on MPS (cache off)``."""
        return spoken_without(self, None)

    @property
    def series(self) -> str:
        return str(self.row["series"])

    @property
    def accepted(self) -> tuple[Regime, ...]:
        return tuple(regime for regime in self.regimes if regime.accepted)

    @property
    def suspected(self) -> tuple[Regime, ...]:
        return tuple(regime for regime in self.regimes if not regime.accepted)

    @property
    def worst(self) -> Regime | None:
        """The accepted regime with the largest slow-down."""
        return max(self.accepted, key=lambda regime: regime.slowdown, default=None)

    @property
    def measured(self) -> bool:
        return self.verdict != "not measured"

    @property
    def busy(self) -> bool:
        """Whether the machine was busy while it was measured, so that nothing is called."""
        return bool(self.row["busy"])

    @property
    def fresh(self) -> bool:
        return bool(self.row["lifetime"] == "fresh")


def spoken_without(curve: Curve, prefix: str | None) -> str:
    """The curve's name for sentences without the words that begin with ``prefix``, for curves that share the rest."""
    return spoken(curve, [word for word in curve.apart if prefix is None or not word.startswith(prefix)])


def spoken(curve: Curve, apart: Sequence[str]) -> str:
    """The curve's name for sentences with these words to tell it apart."""
    place = "the CPU" if curve.device == "CPU" else curve.device
    return f"{curve.model} on {place}" + (f" ({', '.join(apart)})" if apart else "")


def make_curves(
    series: pl.DataFrame,
    regimes_found: pl.DataFrame,
    budgets_found: pl.DataFrame,
    model_title: Callable[[str], str],
    fits: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Curve]:
    """A study's curves, the most affected first and those not measured last.

    The tables are ``series``, ``regimes`` and ``budgets``; model_title: a model's name in print.
    fits: by "model device dtype" what would fit the memory in place of it.
    """
    apart = words_apart(series.to_dicts())
    regimes: dict[str, list[Regime]] = defaultdict(list)
    for row in regimes_found.sort("series", "regime").to_dicts():
        regimes[row["series"]].append(Regime(**row))
    budgets = {key[0]: frame for key, frame in budgets_found.sort("series", "n_gen").group_by("series")}
    rows = sorted(series.to_dicts(), key=lambda row: _rank(row, model_title))
    return [
        Curve(
            key=f"c{number}",
            model=model_title(row["model"]),
            device=device_title(row["device"]),
            apart=apart[row["series"]],
            verdict=row["verdict"],
            row={**row, "reason": prose(row["reason"] or "") or None, "next": prose(row["next"] or "") or None},
            regimes=tuple(regimes[row["series"]]),
            budgets=budgets.get(row["series"], budgets_found.clear()),
            fits=(fits or {}).get(f"{row['model']} {row['device']} {row['dtype']}"),
        )
        for number, row in enumerate(rows, 1)
    ]


def words_apart(rows: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """For each series, how it differs from the study's usual conditions, model and device aside."""
    usual = usual_values(rows)
    places = place_words(rows)
    words = {}
    for row in rows:
        parts = [axis_words(axis, row[axis]) for axis, value in usual.items() if row[axis] != value]
        words[row["series"]] = (*parts, *places[row["machine"], row["stack"]])
    names = {row["series"]: (row["model"], row["device"], words[row["series"]]) for row in rows}
    shared = {name for name, count in Counter(names.values()).items() if count > 1}
    return {
        series: (*parts, series.rpartition(".")[2]) if names[series] in shared else parts
        for series, parts in words.items()
    }


def place_words(rows: list[dict[str, Any]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """For each machine and stack, what tells it from the study's others: the machine's slug, ``torch 2.8.0``."""
    machines = sorted({row["machine"] for row in rows})
    words = {}
    for machine in machines:
        titles = stack_titles({row["stack"] for row in rows if row["machine"] == machine})
        for stack, title in titles.items():
            words[machine, stack] = (*([machine] if len(machines) > 1 else []), *([title] if len(titles) > 1 else []))
    return words


def usual_values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The most frequent value of every axis but model and device; the axis's default where two are equal."""
    usual = {}
    for axis in SERIES_AXES:
        if axis not in ("model", "device"):
            counts = Counter(row[axis] for row in rows)
            usual[axis] = max(
                counts, key=lambda value: (counts[value], value == DEFAULTS[axis], str(value)), default=None
            )
    return usual


def stack_titles(stacks: set[str]) -> dict[str, str]:
    """Each stack's slug as the parts in which it differs from the others: ``torch 2.8.0``; all parts when alone."""
    parts = {stack: stack.split("_") for stack in sorted(stacks)}
    columns = list(zip(*parts.values(), strict=False))
    kept = [number for number, column in enumerate(columns) if len(set(column)) > 1] or list(range(len(columns)))
    alike = len({len(words) for words in parts.values()}) == 1
    return {
        stack: ", ".join(words[number].replace("-", " ", 1) for number in kept) if alike else stack
        for stack, words in parts.items()
    }


def device_title(device: str) -> str:
    """``MPS``, ``CUDA``, ``CPU``."""
    return DEVICES.get(device, device)


def axis_words(axis: str, value: Any) -> str:
    """An axis's value as a reader says it: ``prompt 65``, ``cache off``."""
    match axis:
        case "n_prompt":
            return f"prompt {value}"
        case "kv_cache":
            return {"dynamic": "cache on", "static": "static cache", "off": "cache off"}.get(value, f"cache {value}")
        case "batch":
            return f"batch {value}"
        case "attention":
            return f"{value} attention"
        case "lifetime":
            return {"fresh": "fresh process", "persistent": "one process for all"}.get(value, str(value))
        case "between_requests":
            return {"nothing": "no pause", "empty_cache": "cache emptied"}.get(value, str(value).replace("_", " "))
        case "weights":
            return f"{value} weights"
        case "harness":
            return {"generate": "generate()", "loop": "own loop", "litserve": "LitServe"}.get(value, str(value))
        case "instrument":
            return {
                "free_running": "free running",
                "step_sync": "synchronised at every step",
                "per_step": "every step timed",
                "memory": "memory sampled",
                "profile": "profiled",
            }.get(value, str(value))
        case "predecessor":
            return {"ended": "process before ended", "running": "process before idle"}.get(value, str(value))
        case "ballast_gb":
            return f"{value} GiB of ballast" if value else "no ballast"
        case "watermark":
            side, _, ratio = str(value).partition("_")
            return f"{side} watermark {ratio}".strip()
        case "compile":
            return {"none": "not compiled", "cuda_graph": "CUDA graph", "inductor": "torch.compile"}.get(
                value, str(value)
            )
    return str(value)


def of_all(shown: Sequence[Curve], total: int) -> str:
    """How many of all curves a section shows, as a sentence after another; empty where it shows all of them."""
    if total <= len(shown):
        return ""
    affected = ", the most affected first" if shown[0].verdict in AFFECTED else ""
    return f" {len(shown)} of {total} curves{affected}."


def groups_differing_in(curves: Iterable[Curve], *axes: str) -> list[list[Curve]]:
    """Curves that are alike in all but ``axes`` (axes, machine or stack), in groups of two or more."""
    kept = [column for column in (*SERIES_AXES, "machine", "stack") if column not in axes]
    groups: dict[tuple[Any, ...], list[Curve]] = defaultdict(list)
    for curve in curves:
        if not curve.budgets.is_empty():
            groups[tuple(curve.row[column] for column in kept)].append(curve)
    return [group for group in groups.values() if len(group) > 1]


def _rank(row: dict[str, Any], model_title: Callable[[str], str]) -> tuple[Any, ...]:
    return (
        ORDER.get(row["verdict"], len(ORDER)),
        -(row["slowdown_max"] or 0.0),
        -row["n_budgets"],
        model_title(row["model"]),
        *(row[axis] for axis in SERIES_AXES),
        row["machine"],
        stack_order(row["stack"]),
        row["series"],
    )
