#!/usr/bin/env python3
"""Score how well the analysis names the mechanism of simulated machines, and write the result into the page.

Every machine is drawn from a seed made of its name and number: the figures come out the same again.
"""

import argparse
import multiprocessing
import os
import re
import sys
import time
from pathlib import Path

from bench.mechanisms.confusion import MIXTURES, TRUTHS, Row, name_mechanism, render, tally
from bench.mechanisms.page import part_of, with_rows, write_parts

PAGE = Path(__file__).parents[1] / "docs" / "mechanism.md"


def main() -> int:
    args = parse_args()
    kinds = dict.fromkeys(TRUTHS, args.runs) | dict.fromkeys(MIXTURES, args.mixtures)
    jobs = [(truth, run) for truth, runs in kinds.items() if re.search(args.only, truth) for run in range(runs)]
    start = time.monotonic()
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # the machines are judged in parallel
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        answers = dict(zip(jobs, pool.starmap(name_mechanism, jobs, chunksize=8), strict=True))
    rows = [
        tally(truth, [answers[job] for job in jobs if job[0] == truth]) for truth in dict.fromkeys(t for t, _ in jobs)
    ]
    print(_tables(rows))
    print(f"{len(jobs)} machines in {time.monotonic() - start:.0f} s", file=sys.stderr)
    if args.page:
        text = args.page.read_text(encoding="utf-8")
        kept = with_rows(part_of(text, "confusion"), _tables(rows)) if args.only else _tables(rows)
        write_parts(args.page, {"confusion": kept})
    return 0


def _tables(rows: list[Row]) -> str:
    parts = [[row for row in rows if row.truth in group] for group in (TRUTHS, MIXTURES)]
    return "\n".join(render(part) for part in parts if part)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression on the machines' names; the page keeps others")
    parser.add_argument("--runs", type=int, default=200, help="machines of each mechanism (default 200)")
    parser.add_argument("--mixtures", type=int, default=50, help="machines of each mixture (default 50)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="write into this page (docs/mechanism.md)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
