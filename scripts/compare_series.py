#!/usr/bin/env python3
"""Compare every two series that differ in one axis: KV cache on and off, CPU and accelerator, two machines."""

import argparse
import sys
from pathlib import Path

from speedbump.analyse.comparisons import compare_series
from speedbump.tables import BUDGETS, COMPARISONS, REQUESTS, SERIES, TableError, read_table, write_table


def main() -> int:
    args = parse_args()
    try:
        requests, series, budgets = (
            read_table(args.study / f"{table.name}.parquet", table) for table in (REQUESTS, SERIES, BUDGETS)
        )
        write_table(compare_series(requests, series, budgets), COMPARISONS, args.out)
    except (OSError, TableError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="the study's folder, with its tables")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
