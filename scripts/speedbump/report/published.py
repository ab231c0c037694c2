"""The paper's published figures, never to be taken for this machine's."""

from dataclasses import dataclass
from pathlib import Path

import altair as alt
import polars as pl

from speedbump.report.charts import Chart, Rows, make_chart
from speedbump.report.layers import LENGTH_TIP, chart_of, tip
from speedbump.report.points import short
from speedbump.report.theme import HALF, colour, length_axis, length_range, log_range, value_axis
from speedbump.report.words import listing, seconds

CITATION = "W. F. Hendria, arXiv 2605.08913"
SHAPES = ["circle", "diamond"]
SHOWN = ("baseline", "kv_cache", "probe")
"""Experiments whose GPT-2 Medium curve with the cache on is shown: one prompt, one machine."""


@dataclass(frozen=True)
class Published:
    """latency: hendria2026_latency.csv.  claims: hendria2026_claims.csv."""

    latency: pl.DataFrame
    claims: pl.DataFrame

    @property
    def shown(self) -> pl.DataFrame:
        """GPT-2 Medium on the M3 Max with the cache on, prompt 65, sorted by length."""
        return self.latency.filter(
            (pl.col("model") == "gpt2-medium")
            & (pl.col("backend") == "mps")
            & (pl.col("kv_cache") == "on")
            & (pl.col("prompt_tokens") == 65)
            & pl.col("experiment").is_in(SHOWN)
        ).sort("budget_tokens", "experiment")

    @property
    def heading(self) -> str:
        return "For comparison, published: GPT-2 Medium on an M3 Max, not this machine"

    @property
    def note(self) -> str:
        counts = self.shown.group_by("source").len().sort("source", descending=True)
        marks = listing(f"{count} points from “{source}”" for source, count in counts.iter_rows())
        return (
            f"Published, {CITATION}, measured on an M3 Max, not on this machine: PyTorch 2.8.0, LitServe, the device "
            f"synchronised at every step. Sources: {marks} (circles and diamonds); the draft’s rows were not checked "
            "against v2. This is what a slow regime looks like: fast, ten times slower, fast again."
        )


def read_published(folder: Path) -> Published:
    """Read the reference tables. Raises OSError when one is missing."""
    return Published(
        pl.read_csv(folder / "hendria2026_latency.csv", infer_schema_length=None),
        pl.read_csv(folder / "hendria2026_claims.csv", infer_schema_length=None),
    )


def _source_marks(sources: list[str]) -> list[alt.Chart]:
    """The sources and their shapes in the picture itself, so that they go wherever it goes."""
    layers: list[alt.Chart] = []
    for number, (source, shape) in enumerate(zip(sources, SHAPES, strict=False)):
        first = (
            chart_of("published").transform_filter(f"datum.source == '{source}'").transform_aggregate(count="count()")
        )
        place = {"y": alt.value(10 + 18 * number)}
        point = first.mark_point(size=50, opacity=1, shape=shape, stroke=colour("published"), strokeWidth=1.75)
        text = first.mark_text(align="left", baseline="middle", fill=colour("ink2"))
        layers += [
            point.encode(x=alt.value(10), **place),
            text.encode(x=alt.value(20), text=alt.value(f"published: {source}"), **place),
        ]
    return layers


def draw_published(published: Published) -> tuple[Chart, dict[str, Rows]]:
    """The published curve as a chart of its own, shapes by source."""
    rows: Rows = [
        {
            "n": row["budget_tokens"],
            "y": short(row["latency_s_mean"]),
            "source": row["source"],
            "experiment": row["experiment"],
            "text": seconds(row["latency_s_mean"]),
            "sd": "not published" if row["latency_s_sd"] is None else seconds(row["latency_s_sd"]),
        }
        for row in published.shown.to_dicts()
    ]
    sources = sorted({row["source"] for row in rows}, reverse=True)
    x, y = length_axis(), value_axis("y", "seconds (log scale), published")
    points = (
        chart_of("published")
        .mark_point(size=50, opacity=1, stroke=colour("published"), strokeWidth=1.75)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("source:N").scale(domain=sources, range=SHAPES[: len(sources)]),
            tooltip=[
                LENGTH_TIP,
                tip("text", "published mean of 5"),
                tip("sd", "published sd"),
                tip("experiment", "experiment"),
                tip("source", "source"),
            ],
        )
    )
    parameters = {**length_range([row["n"] for row in rows], HALF), **log_range([row["y"] for row in rows])}
    values = "; ".join(f"{row['n']}, {row['text']} ({row['source']})" for row in rows)
    description = f"{published.heading}. {published.note} Mean latency by output length: {values}."
    return make_chart(
        "latency-published",
        [points, *_source_marks(sources)],
        {"published": "published"},
        parameters,
        HALF,
        description,
    ), {"published": rows}
