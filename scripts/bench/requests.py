"""Tables of requests, as the pipeline collects them, from plain latencies."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from speedbump.grid.axes import DEFAULTS
from speedbump.tables import REQUESTS


@dataclass(frozen=True)
class Run:
    """One cell's latencies in seconds. ``changes``: columns that differ, for all its requests."""

    series: str
    n_gen: int
    e2e_s: tuple[float, ...]
    process: int = 1
    phase: str = "measured"
    status: str = "ok"
    lower_bound: bool = False
    changes: tuple[tuple[str, Any], ...] = ()


def requests_table(runs: Iterable[Run]) -> pl.DataFrame:
    """A ``requests`` table with one row a latency; columns nobody gave are null or the axis' default."""
    rows = [
        {
            **DEFAULTS,
            "series": run.series,
            "cell": f"{run.series}.{run.n_gen}.{run.process}",
            "machine": "simulated",
            "stack": "simulated",
            "device": "cpu",
            "n_gen": run.n_gen,
            "process": run.process,
            "request": k,
            "phase": run.phase,
            "status": run.status,
            "lower_bound": run.lower_bound,
            "e2e_s": seconds,
            **dict(run.changes),
        }
        for run in runs
        for k, seconds in enumerate(run.e2e_s)
    ]
    return pl.DataFrame(rows, schema=REQUESTS.schema)
