"""The data beside the page: every table as Parquet and as CSV."""

import json
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from speedbump.report.study import TABLES, Study

MEANINGS = {
    "requests": "every request, one row each",
    "profiles": "every operator of every profiled request",
    "cells": "every run, summarised",
    "faults": "files that could not be used",
    "budgets": "every output length of every curve: latency, trend, state",
    "series": "every curve: its verdict and limits",
    "regimes": "every slow regime: edges, slow-down, interval",
    "comparisons": "every output length that two curves have in common, and the ratio of their latencies",
    "series_changes": "what became of every curve between two stacks or machines",
    "regime_changes": "the same of every slow regime",
    "budget_changes": "the same of every output length that both have",
    "claims": "every claim of the paper and where it was checked",
    "hypotheses": "every prediction of every hypothesis on why it is slow, and what was seen",
    "growth": "every memory counter over lengths, requests and steps, and how it grows",
    "mitigations": "every change tried: what stays of the slow-down, and its price",
    "predictions": "every curve, measured or published: the onset expected from the allocator’s pool, and the one seen",
}


@dataclass(frozen=True)
class Download:
    """A table's name, what it holds and how many rows."""

    name: str
    meaning: str
    rows: int


def downloads(study: Study) -> list[Download]:
    """The tables offered, in the order of the pipeline."""
    return [Download(table.name, MEANINGS[table.name], getattr(study, table.name).height) for table in TABLES]


def write_downloads(study: Study, folder: Path) -> None:
    """Write every table twice. Lists become JSON text in CSV, times ISO 8601."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        frame: pl.DataFrame = getattr(study, table.name)
        frame.write_parquet(folder / f"{table.name}.parquet")
        lists = [name for name, dtype in frame.schema.items() if dtype == pl.List]
        flat = frame.with_columns(
            pl.col(name).map_elements(lambda steps: json.dumps(list(steps)), return_dtype=pl.String) for name in lists
        )
        flat.write_csv(folder / f"{table.name}.csv")
