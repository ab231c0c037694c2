"""A study's tables as evidence."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from speedbump.analyse.claims.evidence import DETAILS, Evidence, assemble
from speedbump.analyse.tokens import common_tokens


@dataclass(frozen=True)
class Measured:
    """A study's tables, as in ``speedbump.tables``."""

    requests: pl.DataFrame
    cells: pl.DataFrame
    memory_samples: pl.DataFrame
    series: pl.DataFrame
    budgets: pl.DataFrame
    regimes: pl.DataFrame


def measured_evidence(tables: Measured) -> Iterator[tuple[str, str, Evidence]]:
    """Machine, stack and evidence of every place where something was measured, in order."""
    every = tuple(assemble(tables.series, tables.budgets, tables.regimes, _details(tables)))
    for machine, stack in sorted({(series.machine, series.stack) for series in every}):
        here = tuple(series for series in every if (series.machine, series.stack) == (machine, stack))
        yield machine, stack, Evidence(False, here, every)


def _details(tables: Measured) -> pl.DataFrame:
    """Cells of one budget taken together; memory as sampled, at the requests' ends where it was not."""
    key = ["series", "n_gen"]
    cells = tables.cells.group_by(key).agg(
        repeated=pl.col("n_measured").sum() > 1,
        prefill_share=pl.col("prefill_share").median(),
        live=pl.col("torch_current_peak_bytes").max(),
        system=pl.col("system_used_peak_bytes").max(),
    )
    sampled = tables.memory_samples.group_by(key).agg(
        live_sampled=pl.col("torch_current_bytes").max(), system_sampled=pl.col("system_used_bytes").max()
    )
    joined = cells.join(sampled, on=key, how="left").join(common_tokens(tables.requests), on=key, how="left")
    return joined.with_columns(
        live_bytes=pl.max_horizontal("live", "live_sampled"), system_bytes=pl.max_horizontal("system", "system_sampled")
    ).select(pl.col(name).cast(dtype) for name, dtype in DETAILS.items())
