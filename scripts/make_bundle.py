#!/usr/bin/env python3
"""Pack the runs that a study has on this machine in one file, for others to list under ``bundles`` in theirs.

It names nobody: users, hosts and home folders are taken out.
"""

import argparse
import json
import re
import secrets
import sys
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.analyse.bundle import BundleError, write_bundle
from speedbump.report.privacy import identities, scrub_frame, scrub_values
from speedbump.tables import CELLS, TableError, read_table


def main() -> None:
    args = parse_args()
    try:
        about = json.loads((args.study / "study.json").read_text())
        name, machine = str(about["name"]), str(about["machine"])
        cells = read_table(args.study / "cells.parquet", CELLS).filter(machine=machine)
    except (OSError, ValueError, LookupError, TypeError, TableError) as error:
        sys.exit(f"make_bundle: {args.study}: not the folder of a measured study: {error}")
    if cells.is_empty():
        sys.exit(f"make_bundle: {args.study}: has no runs that were measured on this machine, {machine}")
    places = cells.select("machine", "stack", "cell").unique(maintain_order=True).rows()
    runs = [Path("results", "runs", machine, stack, f"{cell}.parquet") for machine, stack, cell in places]
    out = args.out or Path("results", "bundles", f"{name}.{machine}.zip")
    names = identities()

    def scrub(frame: pl.DataFrame, record: dict[str, Any]) -> tuple[pl.DataFrame, dict[str, Any]]:
        return scrub_frame(frame, names), scrub_values(record, names)

    try:
        left_out = write_bundle(runs, name, find_origin(machine), scrub, out)
    except (OSError, BundleError, TableError) as error:
        sys.exit(f"make_bundle: {error}")
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    print(out)


def find_origin(machine: str) -> str:
    """Random digits that this machine keeps, so that two machines of one name can be told apart."""
    file = Path("results", "machines", machine, "origin.txt")
    if not file.exists() or not re.fullmatch(r"[0-9a-f]{8}", file.read_text().strip()):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(secrets.token_hex(4))
    return file.read_text().strip()


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="the study's folder under results/studies")
    parser.add_argument("--out", type=Path, help="default: results/bundles/<study>.<machine>.zip")
    return parser.parse_args()


if __name__ == "__main__":
    main()
