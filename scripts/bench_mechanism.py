#!/usr/bin/env python3
"""Score how well the analysis names the mechanism of simulated machines, and write the result into the page.

Every machine is drawn from a seed made of its name and number: the figures come out the same again.
"""

import argparse
import multiprocessing
import os
import sys
import time
from pathlib import Path

from bench.mechanisms.confusion import MIXTURES, TRUTHS, Row, name_mechanism, render, tally
from bench.mechanisms.page import write_parts

PAGE = Path(__file__).parents[1] / "docs" / "mechanism.md"


def main() -> int:
    args = parse_args()
    jobs = [(truth, run) for truth in TRUTHS for run in range(args.runs)]
    jobs += [(truth, run) for truth in MIXTURES for run in range(args.mixtures)]
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
        write_parts(args.page, {"confusion": _tables(rows)})
    return 0


def _tables(rows: list[Row]) -> str:
    parts = [[row for row in rows if row.truth in group] for group in (TRUTHS, MIXTURES)]
    return "\n".join(render(part) for part in parts if part)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="machines of each mechanism (default 200)")
    parser.add_argument("--mixtures", type=int, default=50, help="machines of each mixture (default 50)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--page", type=Path, nargs="?", const=PAGE, help="write into this page (docs/mechanism.md)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
