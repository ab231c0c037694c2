"""How well the fixed workloads tell which cells were slowed by something else."""

import math
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from threading import Event, Thread

import numpy as np
import polars as pl

from speedbump.analyse.curve import read_curves, without_profiles
from speedbump.analyse.segments import dissect
from speedbump.measure.environment import SENTINEL_DRIFT

BOUNDS = {"device": "sentinel", "host": "host_sentinel"}
"""What bounds a sentinel, and what its columns in the requests table begin with."""
LEAST = 6
"""Processes below which a series is left out. At so few the trend takes a part of what is held against it."""


@dataclass(frozen=True)
class Agreement:
    """Of a table's processes, series by series: how far they lie from the trend, and what a sentinel says of it.

    latency_sd: of log latency over the trend.  sentinel_sd: of the log sentinel, mean of before and after.
    correlation: Pearson's, of the two; NaN where one of them does not vary.
    """

    bound: str
    processes: int
    latency_sd: float
    sentinel_sd: float
    correlation: float


def agreements(requests: pl.DataFrame) -> Iterator[Agreement]:
    """One for each sentinel that ran."""
    processes = processes_of(requests)
    for bound in BOUNDS:
        known = _long_series(processes.drop_nulls(bound))
        if known.is_empty():
            continue
        late, time = (
            known.select(pl.col(name) - pl.col(name).median().over("series")).to_series().to_numpy()
            for name in ("late", bound)
        )
        yield Agreement(bound, len(late), float(late.std()), float(time.std()), _correlation(late, time))


def processes_of(requests: pl.DataFrame) -> pl.DataFrame:
    """One row a process of one budget: ``series``, ``late`` (log latency over the trend; without a trend, over others
    of its budget), the log of each sentinel's mean of before and after, and whether it was ``flagged`` as disturbed.
    """
    trend = _trend(requests)
    usual = pl.col("e2e_s").median().over("series", "n_gen")
    return (
        _of_one_budget(requests)
        .group_by("series", "cell", "n_gen")
        .agg(
            pl.col("e2e_s").median(),
            pl.col("disturbed").first().is_not_null().alias("flagged"),
            **{
                bound: pl.mean_horizontal(pl.col(f"{name}_{when}_s").log().first() for when in ("before", "after"))
                for bound, name in BOUNDS.items()
            },
        )
        .join(trend, on=["series", "n_gen"])
        .with_columns(late=(pl.col("e2e_s") / pl.coalesce("expected_s", usual)).log())
        .drop_nulls("late")
    )


def _trend(requests: pl.DataFrame) -> pl.DataFrame:
    """What every budget is expected to take, the disturbed ones too; null without a trend."""
    rows = []
    for series, curve in read_curves(without_profiles(requests)):
        expectation = dissect(curve).expectation
        expected_s = [None] * curve.n if expectation is None else np.exp(expectation.log_latency).tolist()
        rows += [(series, int(n_gen), time) for n_gen, time in zip(curve.budget, expected_s, strict=True)]
    return pl.DataFrame(rows, {"series": pl.String, "n_gen": pl.Int64, "expected_s": pl.Float64}, orient="row")


def _of_one_budget(requests: pl.DataFrame) -> pl.DataFrame:
    """Measured requests that finished, of processes that repeat one budget: a sentinel runs once a process."""
    finished = without_profiles(requests).filter(phase="measured", status="ok")
    return finished.filter(pl.col("n_gen").n_unique().over("series", "cell") == 1)


def _long_series(processes: pl.DataFrame) -> pl.DataFrame:
    return processes.filter(pl.len().over("series") >= LEAST)


@dataclass(frozen=True)
class Flags:
    """Of the processes in which every sentinel ran, those that were flagged as disturbed and the others: how many, and
    how far they lie from their trend, as root mean squares of log latency over it.
    """

    flagged: int
    flagged_sd: float
    others: int
    others_sd: float


def flags(requests: pl.DataFrame) -> Iterator[Flags]:
    """At most one: none where nothing was flagged, or everything."""
    known = _long_series(processes_of(requests).drop_nulls([*BOUNDS]))
    known = known.with_columns(pl.col("late") - pl.col("late").median().over("series"))
    flagged, others = (known.filter(flagged=is_flagged)["late"] for is_flagged in (True, False))
    if flagged.len() and others.len():
        yield Flags(flagged.len(), _from_zero(flagged), others.len(), _from_zero(others))


def _from_zero(values: pl.Series) -> float:
    return math.sqrt((values**2).mean())


@dataclass(frozen=True)
class Drift:
    """Of a table's processes: how their latency changes while they run, and whether a sentinel changes with it.

    latency_sd: of the log latencies of one process, root mean square over all.
    median_sd: what the median of so many requests would scatter by for that alone, were they normal and independent.
    correlation: Pearson's, of the change from the first measured request to the last with the sentinel's from before
    to after; NaN where one of them does not vary.
    """

    bound: str
    processes: int
    latency_sd: float
    median_sd: float
    correlation: float


def drifts(requests: pl.DataFrame) -> Iterator[Drift]:
    """One for each sentinel that ran, over processes of one budget with two and more measured requests."""
    latency = pl.col("e2e_s").log().sort_by("request")
    processes = (
        _of_one_budget(requests)
        .group_by("series", "cell")
        .agg(
            latency.var().alias("variance"),
            pl.len().alias("requests"),
            (latency.last() - latency.first()).alias("latency"),
            **{
                bound: (pl.col(f"{name}_after_s") / pl.col(f"{name}_before_s")).log().first()
                for bound, name in BOUNDS.items()
            },
        )
        .drop_nulls("variance")
    )
    for bound in BOUNDS:
        known = processes.drop_nulls(bound)
        if not known.is_empty():
            sd, of_median = (
                math.sqrt(known.select(variance.mean()).item())
                for variance in (pl.col("variance"), math.pi / 2 * pl.col("variance") / pl.col("requests"))
            )
            correlation = _correlation(known["latency"].to_numpy(), known[bound].to_numpy())
            yield Drift(bound, known.height, sd, of_median, correlation)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1]) if one.std() > 0 and other.std() > 0 else math.nan


@dataclass(frozen=True)
class Kind:
    """Cells that were disturbed in one way, or not at all: how much slower, and how many of them each sign tells.

    slowdown: median latency over that of the quiet cells.  drift: cells told by each sentinel, after against before.
    level: by each, against its middle over the quiet cells.  others: by what other processes used.
    """

    kind: str
    cells: int
    slowdown: float
    drift: dict[str, int]
    level: dict[str, int]
    others: int


def score(requests: pl.DataFrame, kinds: dict[str, str], quiet: str) -> list[Kind]:
    """requests: of one budget.  kinds: what was done to each cell.  quiet: the kind that nothing was done to.

    Raises ValueError for a cell in which no request finished.
    """
    cells = (
        requests.filter(phase="measured", status="ok")
        .group_by("cell")
        .agg(
            pl.col("e2e_s").median(),
            pl.col("disturbed").first().fill_null(""),
            *(pl.col(f"{name}_{when}_s").first() for name in BOUNDS.values() for when in ("before", "after")),
        )
        .with_columns(kind=pl.col("cell").replace_strict(kinds))
    )
    if silent := kinds.keys() - {*cells["cell"]}:
        raise ValueError(f"no request finished in {', '.join(sorted(silent))}")
    calm = cells.filter(kind=quiet)
    usual_s = median(calm["e2e_s"])
    scored = []
    for kind in dict.fromkeys(kinds.values()):
        own = cells.filter(kind=kind)
        drift, level = {}, {}
        for bound, name in BOUNDS.items():
            before, after = (pl.col(f"{name}_{when}_s") for when in ("before", "after"))
            drift[bound] = _count(own, after / before)
            mean = (before * after).sqrt()
            level[bound] = _count(own, mean / calm.select(mean.median()).item())
        others = own["disturbed"].str.contains("other processes").sum()
        scored.append(Kind(kind, own.height, median(own["e2e_s"]) / usual_s, drift, level, others))
    return scored


def _count(cells: pl.DataFrame, ratio: pl.Expr) -> int:
    """Cells whose ratio is as far from one as flags them."""
    return int(cells.select((ratio.log().abs() > math.log(SENTINEL_DRIFT)).sum()).item())


@contextmanager
def busy(processes: int, delay_s: float) -> Iterator[None]:
    """So many processes keep a core busy each, from after the delay on. They are waited for at the end alone: until
    then their time is another's, not this process's.
    """
    burners: list[subprocess.Popen[bytes]] = []
    ended = Event()

    def start() -> None:
        if not ended.wait(delay_s):
            burners.extend(subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes))

    starter = Thread(target=start)
    starter.start()
    try:
        if not delay_s:
            starter.join()
        yield
    finally:
        ended.set()
        starter.join()
        for burner in burners:
            burner.kill()
            burner.wait()
