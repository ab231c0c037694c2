#!/usr/bin/env python3
"""Judge why a study's curves are slow and what makes it go away; predict onsets from the allocator's pool."""

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.analyse.claims.measured import Measured, measured_evidence
from speedbump.analyse.claims.published import published_evidence
from speedbump.analyse.mechanism.judge import judge_study
from speedbump.analyse.mechanism.predictions import prediction_rows
from speedbump.grid.models import ModelError, load_models
from speedbump.tables import GROWTH, HYPOTHESES, MITIGATIONS, PREDICTIONS, TABLES, TableError, read_table, write_table

CONFIG = Path(__file__).parents[1] / "config"


def main() -> int:
    args = parse_args()
    try:
        judge(args)
    except (OSError, TableError, ModelError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return 2
    return 0


def judge(args: argparse.Namespace) -> None:
    """Write the four tables. Raises OSError, TableError or ModelError naming the file that is missing or wrong."""
    schemas = {table.name: table for table in TABLES}
    tables = Measured(*(read_table(args.study / f"{f.name}.parquet", schemas[f.name]) for f in fields(Measured)))
    judged = judge_study(
        tables.requests, tables.memory_samples, tables.series, tables.budgets, tables.regimes, read_around(args.study)
    )
    evidence = [evidence for _, _, evidence in measured_evidence(tables)][:1]
    models = {name: model for folder in args.models for name, model in load_models(folder).items()}
    rows = prediction_rows([*evidence, published_evidence(args.reference)], models, read_recommended(args.study))
    write_table(judged.hypotheses, HYPOTHESES, args.out / "hypotheses.parquet")
    write_table(judged.growth, GROWTH, args.out / "growth.parquet")
    write_table(judged.mitigations, MITIGATIONS, args.out / "mitigations.parquet")
    write_table(pl.DataFrame(rows, schema=PREDICTIONS.schema), PREDICTIONS, args.out / "predictions.parquet")


def read_around(study: Path) -> dict[str, Any] | None:
    """Axes of the curve that the study is around, from its study.json; None where it is around nothing."""
    try:
        about = json.loads((study / "study.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return about["around"]["axes"] if "around" in about else None


def read_recommended(study: Path) -> dict[tuple[str, str], float]:
    """Bytes of the working set that Metal recommends, by machine and stack, from the study's environment.json."""
    try:
        entries = json.loads((study / "environment.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    recorded = ((entry, entry["environment"].get("mps_recommended_bytes")) for entry in entries)
    return {(entry["machine"], entry["stack"]): size for entry, size in recorded if size}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="the study's folder, with its tables")
    parser.add_argument("--models", type=Path, nargs="+", default=[CONFIG / "models"], help="folders of models")
    parser.add_argument("--reference", type=Path, default=CONFIG / "reference", help="the paper's published figures")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the tables into")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
