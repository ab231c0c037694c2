#!/usr/bin/env python3
"""Compare every two stacks of a machine, and every two machines: what became slower, faster, new, moved or gone."""

import argparse
import sys
from pathlib import Path

from speedbump.analyse.changes.compare import compare_places
from speedbump.tables import (
    BUDGET_CHANGES,
    REGIME_CHANGES,
    REQUESTS,
    SERIES_CHANGES,
    TableError,
    read_table,
    write_table,
)


def main() -> int:
    args = parse_args()
    try:
        changes = compare_places(read_table(args.requests, REQUESTS))
        write_table(changes.series, SERIES_CHANGES, args.series)
        write_table(changes.regimes, REGIME_CHANGES, args.regimes)
        write_table(changes.budgets, BUDGET_CHANGES, args.budgets)
    except (OSError, TableError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", type=Path, help="the study's table of requests (Parquet)")
    for name, what in (("series", "series"), ("regimes", "slow regimes"), ("budgets", "budgets")):
        parser.add_argument(
            f"--{name}", type=Path, required=True, help=f"Parquet file to write: what changed, by {what}"
        )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
