"""One row a cell: what its requests come to."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from scipy import stats

from speedbump.analyse.neighbours import count_neighbours
from speedbump.analyse.sentinels import with_disturbances
from speedbump.grid.axes import AXES
from speedbump.tables import CELLS, check_table

_OF_RECORDS = {
    **dict.fromkeys(("machine", "stack", "cell", "slot"), pl.String),
    **dict.fromkeys(("wall_s", "neighbours"), pl.Float64),
}

MEMORY = ("torch_current", "torch_driver", "rss", "footprint", "system_used", "swap_used")


def summarise_cells(requests: pl.DataFrame, records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The ``cells`` table: a row for each cell, and for each budget of a persistent one.

    requests: the ``requests`` table.  records: the runs' metadata, each with its ``cell_id``. Two machines that
    measure the same cell give it the same id, so a cell counts by its place.
    Only measured requests that finished count as latencies; where none finished, the longest time
    that any request was seen to run stands as a lower bound.
    """
    key = ["machine", "stack", "cell", "n_gen"]
    axes = [axis.name for axis in AXES if axis.name != "n_gen"]
    finished = pl.col("status") == "ok"
    measured = finished & (pl.col("phase") == "measured")
    latency = pl.col("e2e_s").filter(measured)
    trouble = pl.col("status").filter(~finished)
    bound = pl.col("e2e_s").filter(pl.col("lower_bound")).max()
    summary = (
        with_disturbances(requests)
        .sort(*key[:3], "request")
        .group_by(key, maintain_order=True)
        .agg(
            pl.col("series", *axes, "attention_ran", "own_swap_bytes").first(),
            disturbed=pl.col("why_disturbed").first(),
            outcome=trouble.first().fill_null("ok"),
            message=pl.col("message").filter(~finished).first(),
            n_warmup=(finished & (pl.col("phase") == "warmup")).sum(),
            n_measured=measured.sum(),
            median=latency.median(),
            e2e_mean_s=latency.mean(),
            e2e_sd_s=latency.std(),
            e2e_p95_s=latency.quantile(0.95, "linear"),
            bound=bound,
            ttft_median_s=pl.col("ttft_s").filter(measured).median(),
            decode_median_s=pl.col("decode_s").filter(measured).median(),
            tpot_median_s=pl.col("tpot_s").filter(measured).median(),
            prefill_share=(pl.col("ttft_s") / pl.col("e2e_s")).filter(measured).median(),
            sentinel_s=pl.mean_horizontal("sentinel_before_s", "sentinel_after_s").first(),
            host_sentinel_s=pl.mean_horizontal("host_sentinel_before_s", "host_sentinel_after_s").first(),
            sentinel_drift=(pl.col("sentinel_after_s") / pl.col("sentinel_before_s")).first(),
            started_at=pl.col("started_at").min(),
            **{f"{name}_peak_bytes": pl.col(f"{name}_bytes").max() for name in MEMORY},
        )
        .with_columns(
            lower_bound=(pl.col("n_measured") == 0) & pl.col("bound").is_not_null(),
        )
        .with_columns(e2e_median_s=pl.when("lower_bound").then("bound").otherwise("median"))
    )
    summary = summary.join(_of_records(records), on=key[:3], how="left")
    quantile = {n: float(stats.t.ppf(0.975, n - 1)) for n in summary["n_measured"].unique() if n > 1}
    half = (
        pl.col("n_measured").replace_strict(quantile, default=None, return_dtype=pl.Float64)
        * pl.col("e2e_sd_s")
        / pl.col("n_measured").sqrt()
    )
    summary = summary.with_columns(
        e2e_low_s=pl.col("e2e_mean_s") - half,
        e2e_high_s=pl.col("e2e_mean_s") + half,
        tokens_per_s=pl.when("lower_bound").then(None).otherwise(pl.col("batch") * pl.col("n_gen") / pl.col("median")),
    )
    return check_table(summary.drop("median", "bound").sort("series", "n_gen", "process", "cell"), CELLS, "cells")


def _of_records(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """What a cell's row takes from its record, by place."""
    rows = [
        (record["machine"], record["stack"], record["cell_id"], _slot(record), record["wall_s"], neighbours)
        for record, neighbours in zip(records, count_neighbours(records), strict=True)
    ]
    return pl.DataFrame(rows, schema=_OF_RECORDS, orient="row")


def _slot(record: Mapping[str, Any]) -> str | None:
    """The device that was held, where it has a name of its own and the cell held no other."""
    slots = (record.get("held") or {}).get("slots", [])
    return slots[0] if len(slots) == 1 and slots != ["only"] else None
