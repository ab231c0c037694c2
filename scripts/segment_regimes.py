#!/usr/bin/env python3
"""Find slow regimes along the output length of every series.

Takes the pipeline's table of requests and writes three tables; or takes a CSV that somebody already has and
prints the verdict of each series.
"""

import argparse
import os
import sys
from pathlib import Path

from speedbump.analyse.csv_table import CsvError, findings_of_csv
from speedbump.analyse.grouping import check_series, grouped_by
from speedbump.analyse.regimes import Findings, find_regimes
from speedbump.analyse.wording import as_json, as_text
from speedbump.tables import BUDGETS, REGIMES, REQUESTS, SERIES, TableError, read_table, write_table

CSV_HELP = """
columns of a CSV, one row a request:        series, n_gen, e2e_s
or one row a budget of a published table:   series, n_gen, e2e_s_mean, e2e_s_sd, n
optional: process (repeat of the whole process), lower_bound (true: stopped, at least this slow)
series may be left out when there is one. n may be left out too: such a mean counts as one request, or as two beside an
e2e_s_sd, the least that it can be. Other columns are not read, but where one has several values within a series (model,
n_prompt) it must be named: --group makes each value a series, --ignore takes them as one.
Exit status: 0 whatever the verdict, 2 for a file that cannot be read.
"""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=CSV_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, help="requests.parquet, or a .csv")
    parser.add_argument("--series", type=Path, help="where to write the verdict of every series")
    parser.add_argument("--regimes", type=Path, help="where to write the regimes")
    parser.add_argument("--budgets", type=Path, help="where to write what is known of every budget")
    parser.add_argument(
        "--group",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="columns that tell series apart, beside the column series",
    )
    parser.add_argument(
        "--ignore", nargs="+", default=[], metavar="COLUMN", help="columns of a CSV that may differ within a series"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    return parser.parse_args()


def main() -> int:
    args = parse_args()
    try:
        findings = find(args.table, args.group, args.ignore)
    except (CsvError, TableError) as error:
        print(error, file=sys.stderr)
        return 2
    outputs = ((findings.series, SERIES), (findings.regimes, REGIMES), (findings.budgets, BUDGETS))
    paths = (args.series, args.regimes, args.budgets)
    for (frame, table), path in zip(outputs, paths, strict=True):
        if path is not None:
            write_table(frame, table, path)
    if args.json:
        return show(as_json(findings))
    return 0 if any(paths) else show(as_text(findings))


def find(table: Path, group: list[str], ignore: list[str]) -> Findings:
    """Raises CsvError or TableError."""
    if table.suffix.lower() != ".parquet":
        return findings_of_csv(table, group, ignore)
    requests = grouped_by(read_table(table, REQUESTS), group, str(table))
    check_series(requests, str(table))
    return find_regimes(requests)


def show(text: str) -> int:
    """Print it; whoever reads may stop before the end."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
