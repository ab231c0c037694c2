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

from speedbump.analyse.regimes import find_regimes
from speedbump.measure.environment import SENTINEL_DRIFT

BOUNDS = {"device": "sentinel", "host": "host_sentinel"}
"""What bounds a sentinel, and what its columns in the requests table begin with."""
LEAST = 8
"""Processes below which a series is left out: the trend would follow them."""


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
    """One for each sentinel that ran. Within each series both are taken against their median; without a trend latency
    is held against others of its budget.
    """
    trend = find_regimes(requests).budgets.select("series", "n_gen", "expected_s")
    usual = pl.col("e2e_s").median().over("series", "n_gen")
    processes = (
        requests.filter(phase="measured", status="ok")
        .group_by("series", "cell", "n_gen")
        .agg(
            pl.col("e2e_s").median(),
            **{
                bound: pl.mean_horizontal(pl.col(f"{name}_{when}_s").log().first() for when in ("before", "after"))
                for bound, name in BOUNDS.items()
            },
        )
        .join(trend, on=["series", "n_gen"])
        .with_columns(late=(pl.col("e2e_s") / pl.coalesce("expected_s", usual)).log())
    )
    for bound in BOUNDS:
        known = processes.drop_nulls(["late", bound]).filter(pl.len().over("series") >= LEAST)
        if known.is_empty():
            continue
        late, time = (
            known.select(pl.col(name) - pl.col(name).median().over("series")).to_series().to_numpy()
            for name in ("late", bound)
        )
        varies = late.std() > 0 and time.std() > 0
        correlation = float(np.corrcoef(late, time)[0, 1]) if varies else math.nan
        yield Agreement(bound, len(late), float(late.std()), float(time.std()), correlation)


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
