#!/usr/bin/env python3
"""Check the paper's 21 claims on a study's tables and on the paper's own published figures, by the same rules."""

import argparse
import sys
from dataclasses import fields
from pathlib import Path

import polars as pl

from speedbump.analyse.claims.check import check_claims, read_claims
from speedbump.analyse.claims.measured import Measured, measured_evidence
from speedbump.analyse.claims.published import published_evidence, published_seconds
from speedbump.analyse.claims.wording import as_text
from speedbump.grid.estimate import in_words
from speedbump.tables import CLAIMS, TABLES, TableError, read_table, write_table

REFERENCE = Path(__file__).parents[1] / "config" / "reference"


def main() -> int:
    args = parse_args()
    try:
        answer_claims(args)
    except (OSError, TableError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return 2
    return 0


def answer_claims(args: argparse.Namespace) -> None:
    """Print or write the table of claims. Raises OSError or TableError naming the file that is missing or wrong."""
    claims = read_claims(args.reference)
    checked = [check_claims(claims, published_evidence(args.reference))]
    if args.study:
        tables = {table.name: table for table in TABLES}
        names = [field.name for field in fields(Measured)]
        measured = Measured(*(read_table(args.study / f"{name}.parquet", tables[name]) for name in names))
        checked += [
            check_claims(claims, evidence, machine, stack) for machine, stack, evidence in measured_evidence(measured)
        ]
    table = pl.concat(checked)
    if args.out:
        write_table(table, CLAIMS, args.out)
        return
    print(as_text(table))
    if args.published:
        spent = [f"{in_words(seconds)} on {chip}" for chip, seconds in published_seconds(args.reference).items()]
        print(f"\nThe requests behind the published latencies, warm-ups included, took {', '.join(spent)}.")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, nargs="?", help="the study's folder, with its tables")
    parser.add_argument("--published", action="store_true", help="the published figures alone, no study")
    parser.add_argument("--reference", type=Path, default=REFERENCE, help="folder of the paper's published figures")
    parser.add_argument("--out", type=Path, help="Parquet file to write; printed as text when left out")
    args = parser.parse_args()
    if (args.study is None) != args.published:
        parser.error("give a study's folder, or --published")
    return args


if __name__ == "__main__":
    sys.exit(main())
