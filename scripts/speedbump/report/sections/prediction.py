"""The onset that the allocator-pool hypothesis expects, beside the one that was measured."""

from collections.abc import Iterable
from typing import Any

import polars as pl

from speedbump.grid.onset import KNOWN_MISSES
from speedbump.report.charts import Drawing, Rows
from speedbump.report.curves import axis_words, device_title, stack_titles
from speedbump.report.published import Published
from speedbump.report.section import Section, Table
from speedbump.report.study import Study
from speedbump.report.words import lengths, listing, plural

ICONS = {"hit": "smooth", "miss": "slow", "can't tell": "unsure", "not predicted": "none"}
TOLD = ("hit", "miss")
_SAME = ("origin", "machine", "stack", "model", "device", "dtype", "kv_cache", "n_prompt")
EMPTY = Section(
    "prediction",
    "Prediction",
    "Predicted onsets",
    empty="Filled by a curve on MPS. Before measuring: python scripts/predict_onset.py says what to expect.",
)
Row = dict[str, Any]


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Nothing: predictions are a table."""
    return Drawing([], {})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """How many onsets lie where they were expected, and all of them."""
    measured = configurations(study.predictions.filter(pl.col("origin") == "measured"))
    told = [row for row in measured if row["outcome"] in TOLD]
    if not told and not (study.compare_with_paper and study.predictions.height):
        return EMPTY
    of_paper = configurations(study.predictions.filter(pl.col("origin") == "published"))
    shown = [*told, *(row for row in measured if row["outcome"] == "can't tell")]
    shown += [row for row in of_paper if row["outcome"] in TOLD]
    return Section(
        anchor="prediction",
        nav="Prediction",
        finding=prediction_finding(told, of_paper),
        lead="A hypothesis, not a finding: that latency jumps once the buffers which the MPS allocator keeps, one for "
        "every cache size, and the weights outgrow 0.825 to 0.868 of the memory. That share was chosen on the paper’s "
        f"figures, so that agreeing with them is no test. {_fitted(shown)}",
        caption=f"Known misses: {'; '.join(KNOWN_MISSES)}.",
        table=_table(study, shown),
        open=True,
        file="predictions",
    )


def configurations(predictions: pl.DataFrame) -> list[Row]:
    """One row for curves that differ in how they were observed alone: the one whose onset is known best, and a miss
    before a hit.
    """
    width = pl.col("onset_high") - pl.col("onset_low")
    rank = pl.col("outcome").replace_strict({"miss": 0, "hit": 1, "can't tell": 2}, default=3, return_dtype=pl.Int64)
    ranked = predictions.with_columns(rank=rank, width=width.fill_null(1_000_000)).sort(
        "rank", "width", maintain_order=True
    )
    return ranked.unique(_SAME, keep="first", maintain_order=True).sort("machine", "model", "n_prompt").to_dicts()


def prediction_finding(measured: Iterable[Row], of_paper: Iterable[Row]) -> str:
    """The title: how many onsets lie where the hypothesis expects them."""
    parts = []
    for rows, whose in ((measured, "measured here"), (of_paper, "published")):
        known = [row for row in rows if row["outcome"] in TOLD]
        hits = sum(row["outcome"] == "hit" for row in known)
        if known:
            parts.append(f"{hits} of {plural(len(known), 'curve')} {whose}")
    return f"A hypothesis: the allocator’s pool would put the onset where it is in {listing(parts)}"


def _fitted(rows: Iterable[Row]) -> str:
    own = {(row["machine"], row["stack"]): row for row in rows if row["fitted_n"] and row["fitted_n"] > 1}
    told = []
    for (machine, stack), row in own.items():
        titles = stack_titles({other for place, other in own if place == machine})
        where = f"{machine} with {titles[stack]}" if len(titles) > 1 else machine
        if row["fitted_low_gib"] is None:
            told.append(f"On {where} no single threshold fits {row['fitted_n']} onsets.")
        else:
            ends = f"{row['fitted_low_gib']:.1f} and {row['fitted_high_gib']:.1f} GiB"
            told.append(f"The {row['fitted_n']} onsets of {where} leave a threshold between {ends}.")
    return " ".join(told)


def _table(study: Study, rows: Iterable[Row]) -> Table:
    body = [
        (
            ", ".join(
                (
                    study.model_title(row["model"]),
                    device_title(row["device"]),
                    f"prompt {row['n_prompt']}",
                    *_apart(row),
                )
            ),
            row["machine"] if row["origin"] == "measured" else f"{row['machine']} (published)",
            _expected(row),
            _measured(row),
            row["outcome"],
            _recovery(row["expected_recovery"]),
            _recovery(row["recovery_high"]),
        )
        for row in rows
    ]
    columns = ("Curve", "Machine", "Onset expected", "Onset measured", "Outcome", "Purge expected", "Fast again")
    return Table(columns, body, icons=ICONS)


def _apart(row: Row) -> tuple[str, ...]:
    usual = {"dtype": "float32", "kv_cache": "dynamic"}
    return tuple(axis_words(name, row[name]) for name, value in usual.items() if row[name] != value)


def _expected(row: Row) -> str:
    if row["expected_slow"] is None:
        return "none"
    return f"{lengths(row['expected_normal'] + 1, row['expected_slow'])}"


def _measured(row: Row) -> str:
    if row["onset_high"] is None:
        return f"none up to {row['n_gen_max']}" if row["outcome"] in TOLD else "not told"
    return f"after {row['onset_low']}, by {row['onset_high']}" if row["onset_low"] else f"by {row['onset_high']}"


def _recovery(value: int | None) -> str:
    return "" if value is None else f"by {value}"
