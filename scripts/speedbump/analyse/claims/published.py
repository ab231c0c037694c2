"""The paper's published figures as evidence."""

import math
from pathlib import Path

import polars as pl

from speedbump.analyse.claims.evidence import DETAILS, Evidence, assemble
from speedbump.analyse.curve import from_published
from speedbump.analyse.regimes import findings_of_curves
from speedbump.grid.axes import DEFAULTS
from speedbump.grid.cells import slug
from speedbump.tables import SERIES

_CURVE = ("experiment", "model", "chip", "backend", "kv_cache", "prompt_tokens")
"""What tells published curves apart: figures of two experiments were measured apart, and disagree."""
_MEMORY_UNIT = 1e6
_WARMUPS, _REPEATS = 3, 5
"""Requests of a published figure; the memory figures do not say so again."""


def published_evidence(reference: Path) -> Evidence:
    """Evidence of the published means, standard deviations and memory figures.

    reference: folder of the CSV files. A published sd is that of the n requests as a population; the sample's is
    larger by sqrt(n / (n - 1)). Where none is published the interval is not shown.
    """
    rows = _read(reference)
    curves = {}
    for (name,), own in rows.group_by("series", maintain_order=True):
        numbers = own.select("budget_tokens", "latency_s_mean", "sample_sd", "n").cast(pl.Float64).to_numpy().T
        curves[str(name)] = from_published(*numbers)
    found = findings_of_curves(curves)
    # The published figure is the mean; the analysis' centre is that of log-normal requests with this mean.
    means = rows.select("series", n_gen="budget_tokens", mean_s="latency_s_mean")
    budgets = found.budgets.join(means, on=["series", "n_gen"]).with_columns(
        *(pl.col(name) * pl.col("mean_s") / pl.col("latency_s") for name in ("low_s", "high_s")), latency_s="mean_s"
    )
    details = rows.select(
        "series",
        "live_bytes",
        "system_bytes",
        n_gen="budget_tokens",
        repeated=pl.col("latency_s_sd").is_not_null(),
        prefill_share=pl.lit(None, pl.Float64),
        tokens=pl.lit(None, pl.String),
    ).select(DETAILS.names())
    every = tuple(assemble(_with_axes(found.series, rows), budgets, found.regimes, details))
    return Evidence(True, every, every)


def published_seconds(reference: Path) -> dict[str, float]:
    """How long the requests behind the published latencies took on each chip, warm-ups included."""
    latency = pl.read_csv(reference / "hendria2026_latency.csv", infer_schema_length=None)
    seconds = pl.col("latency_s_mean") * (pl.col("n") + _WARMUPS)
    return dict(latency.group_by("chip", maintain_order=True).agg(seconds.sum()).rows())


def _read(reference: Path) -> pl.DataFrame:
    latency = pl.read_csv(reference / "hendria2026_latency.csv", infer_schema_length=None)
    memory = pl.read_csv(reference / "hendria2026_memory.csv", infer_schema_length=None).with_columns(
        experiment=pl.lit("memory"),
        n=pl.lit(_REPEATS),
        live_bytes=pl.col("peak_mps_current_allocated_mb") * _MEMORY_UNIT,
        system_bytes=pl.col("peak_system_used_mb") * _MEMORY_UNIT,
    )
    rows = pl.concat([latency, memory], how="diagonal_relaxed").sort(*_CURVE, "budget_tokens", maintain_order=True)
    return rows.with_columns(
        series=pl.concat_str(_CURVE, separator="/"),
        sample_sd=(pl.col("latency_s_sd") * (pl.col("n") / (pl.col("n") - 1)).sqrt()).fill_null(math.nan),
    )


def _with_axes(series: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The series with the axes that the published columns stand for, others at their defaults."""
    instrument = (
        pl.when(pl.col("experiment") == "memory")
        .then(pl.lit("memory"))
        .when("step_timers")
        .then(pl.lit("per_step"))
        .otherwise(pl.lit("step_sync"))
    )
    place = pl.struct("chip", "memory_gb").map_elements(
        lambda row: slug(f"{row['chip']} {row['memory_gb']}gb"), return_dtype=pl.String
    )
    known = rows.unique("series", keep="first").select(
        "series",
        "model",
        machine=place,
        stack=pl.concat_str(pl.lit("torch-"), pl.col("torch").fill_null("unknown")),
        device="backend",
        kv_cache=pl.col("kv_cache").replace({"on": "dynamic"}),
        n_prompt="prompt_tokens",
        instrument=instrument,
    )
    fixed = {name: pl.lit(DEFAULTS[name]) for name in SERIES.schema if name in DEFAULTS and name not in known.columns}
    known = known.with_columns(**fixed)
    return known.join(series.drop(known.columns[1:]), on="series")
