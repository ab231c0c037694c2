"""A workload's lengths against measured curves: how much of it falls into slow regimes, and what it costs.

What it says holds for the curves' own condition, a fresh process that repeats one length. A request takes
the latency of the curve at its output length; between two measured lengths of one state that is interpolated
on logarithmic scales. Between lengths of different states it is only known to lie between the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from speedbump.analyse.curve import Array, Indices

COLUMNS = ("n_prompt", "n_gen")
MOST_NAMED = 20
FAR = 1.5
"""A prompt that many times longer or shorter than the curve's is called far from it."""


class WorkloadError(Exception):
    """The file is not a workload; the message names the file and what is wrong."""


@dataclass(frozen=True)
class BadRow:
    """A row that was left out. line: in the file, the header being line 1."""

    line: int
    reason: str


@dataclass(frozen=True)
class Workload:
    """requests: n_prompt, n_gen, count, one row a pair.  bad: the first rows left out.  n_bad: all of them."""

    requests: pl.DataFrame
    bad: tuple[BadRow, ...]
    n_bad: int

    @property
    def n_requests(self) -> int:
        return int(self.requests["count"].sum())


@dataclass(frozen=True)
class Answer:
    """A curve that can answer for requests. budgets: its rows of the budgets table."""

    n_prompt: int
    budgets: pl.DataFrame


@dataclass(frozen=True)
class Expected:
    """A quantity with what the curves' 95 % intervals and unknown edges allow. Seconds. high: None when unbounded."""

    low: float
    centre: float
    high: float | None


@dataclass(frozen=True)
class Estimate:
    """What the curves say of a workload. Shares are of all requests; times are of those within measured lengths.

    slow, edge, outside: shares in a slow regime, between a normal and a slow length, beyond what was measured.
    far: share whose prompt is FAR from that of the curve which answers.  slow_time: share of the total time spent
    in slow lengths; None when nothing is within.
    """

    n_requests: int
    slow: float
    edge: float
    outside: float
    far: float
    slow_time: float | None
    p50: Expected | None
    p95: Expected | None
    p99: Expected | None
    total: Expected | None


def read_workload(path: str | Path) -> Workload:
    """Read a CSV with columns n_prompt, n_gen and perhaps count. Raises WorkloadError when it is not one."""
    try:
        raw = pl.read_csv(path, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise WorkloadError(f"{path}: cannot be read as CSV: {str(error).splitlines()[0]}") from error
    raw = raw.rename({name: name.strip().removeprefix("\ufeff") for name in raw.columns})
    missing = [name for name in COLUMNS if name not in raw.columns]
    if missing:
        raise WorkloadError(f"{path}: not a workload: it lacks {' and '.join(missing)}")
    kept = [*COLUMNS, *(["count"] if "count" in raw.columns else [])]
    numbers = raw.select(
        pl.int_range(2, pl.len() + 2).alias("line"),
        *(pl.col(name).str.strip_chars().cast(pl.Int64, strict=False) for name in kept),
        *(pl.col(name).alias(f"{name}_text") for name in kept),
    )
    good = pl.all_horizontal(pl.col(name).is_not_null() & (pl.col(name) >= 1) for name in kept)
    bad = numbers.filter(~good)
    requests = (
        numbers.filter(good)
        .select(*COLUMNS, pl.col("count") if "count" in kept else pl.lit(1, pl.Int64).alias("count"))
        .group_by(*COLUMNS)
        .agg(pl.col("count").sum())
        .sort(*COLUMNS)
    )
    named = [BadRow(row["line"], _reason(row, kept)) for row in bad.head(MOST_NAMED).to_dicts()]
    return Workload(requests, tuple(named), bad.height)


def estimate(workload: Workload, answers: Sequence[Answer]) -> Estimate:
    """What the curves say of the workload; each request is answered by the curve whose prompt is nearest.

    Raises ValueError without an answer or without requests.
    """
    if not answers or workload.n_requests == 0:
        raise ValueError("an estimate needs a curve and a request")
    n_prompt, n_gen, count = (workload.requests[name].to_numpy() for name in ("n_prompt", "n_gen", "count"))
    prompts = np.array([answer.n_prompt for answer in answers])
    distance = np.abs(np.log(n_prompt[:, None] / prompts[None, :]))
    nearest = distance.argmin(axis=1)
    kind = np.full(len(n_gen), OUTSIDE)
    low, centre, high = (np.full(len(n_gen), np.nan) for _ in range(3))
    for number, answer in enumerate(answers):
        mine = nearest == number
        kind[mine], low[mine], centre[mine], high[mine] = _look_up(n_gen[mine], answer.budgets)
    total = count.sum()
    within = kind != OUTSIDE
    spent = (centre * count)[within]

    def quantile(share: float) -> Expected | None:
        return _expected(*(weighted_quantile(values[within], count[within], share) for values in (low, centre, high)))

    return Estimate(
        n_requests=int(total),
        slow=float(count[kind == SLOW].sum() / total),
        edge=float(count[kind == EDGE].sum() / total),
        outside=float(count[~within].sum() / total),
        far=float(count[distance.min(axis=1) > np.log(FAR)].sum() / total),
        slow_time=float(spent[kind[within] == SLOW].sum() / spent.sum()) if within.any() else None,
        p50=quantile(0.50) if within.any() else None,
        p95=quantile(0.95) if within.any() else None,
        p99=quantile(0.99) if within.any() else None,
        total=_expected(*((values * count)[within].sum() for values in (low, centre, high))) if within.any() else None,
    )


NORMAL, SLOW, EDGE, OUTSIDE = 0, 1, 2, 3
KINDS = ("normal", "slow", "unclear", "outside")


def kinds(n_gen: Indices, budgets: pl.DataFrame) -> Indices:
    """For each output length: NORMAL, SLOW, EDGE or OUTSIDE, by the measured lengths around it."""
    return _look_up(n_gen, budgets)[0]


def weighted_quantile(values: Array, count: Indices, share: float) -> float:
    """The smallest value at which ``share`` of all requests are reached."""
    order = np.argsort(values)
    reached = np.cumsum(count[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1])])


def _look_up(n_gen: Indices, budgets: pl.DataFrame) -> tuple[Indices, Array, Array, Array]:
    """Kind, and low, centre and high of the latency in seconds; high is infinite above a lower bound."""
    table = budgets.sort("n_gen")
    at = table["n_gen"].to_numpy()
    centre = table["latency_s"].to_numpy()
    low = table["low_s"].fill_null(table["latency_s"]).to_numpy()
    high = table["high_s"].fill_null(table["latency_s"]).to_numpy()
    high = np.where(table["lower_bound"].to_numpy(), np.inf, high)
    state = (
        table["state"].replace_strict({"normal": NORMAL, "slow": SLOW}, default=EDGE, return_dtype=pl.Int64).to_numpy()
    )
    if not len(at):
        nothing = np.full(len(n_gen), np.nan)
        return np.full(len(n_gen), OUTSIDE), nothing, nothing, nothing
    after = np.clip(np.searchsorted(at, n_gen), 0, len(at) - 1)
    before = np.where(at[after] == n_gen, after, np.maximum(after - 1, 0))
    outside = (n_gen < at[0]) | (n_gen > at[-1])
    same = state[before] == state[after]
    kind = np.where(outside, OUTSIDE, np.where(same, state[before], EDGE))
    width = np.log(at[after] / at[before])
    weight = np.where(width > 0, np.log(n_gen / at[before]) / np.where(width > 0, width, 1), 0)

    def between(values: Array) -> Array:
        with np.errstate(invalid="ignore"):
            mixed = np.exp((1 - weight) * np.log(values[before]) + weight * np.log(values[after]))
        return np.where(np.isinf(values[before]) | np.isinf(values[after]), np.inf, mixed)

    # Across an edge either side may hold, each in proportion to the length.
    left, right = n_gen / at[before], n_gen / at[after]
    lowest = np.minimum(low[before] * left, low[after] * right)
    highest = np.maximum(high[before] * left, high[after] * right)
    middle = np.sqrt(centre[before] * left * centre[after] * right)
    return (
        kind,
        np.where(same, between(low), lowest),
        np.where(same, between(centre), middle),
        np.where(same, between(high), highest),
    )


def _expected(low: float, centre: float, high: float) -> Expected:
    return Expected(float(low), float(centre), float(high) if np.isfinite(high) else None)


def _reason(row: dict[str, object], columns: Sequence[str]) -> str:
    for name in columns:
        text, value = row[f"{name}_text"], row[name]
        if text is None or not str(text).strip():
            return f"{name} is empty"
        if value is None:
            return f"{name} is not a whole number: {str(text)[:40]}"
        if isinstance(value, int) and value < 1:
            return f"{name} is less than 1: {value}"
    return "unknown"
