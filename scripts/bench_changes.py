#!/usr/bin/env python3
"""Compare simulated stacks with themselves, and with slower ones, and write the page with what was found.

Every pair of sessions is drawn from a seed made of its scenario's name: the figures come out the same again.
"""

import argparse
import multiprocessing
import os
import re
import sys
from pathlib import Path

from bench.upgrades import (
    RIGHT,
    Count,
    Upgrade,
    compare_drawn,
    moved_upgrades,
    powers,
    recorded_files,
    resampled,
    upgrades,
)
from bench.upgrades_page import Row, render_page

Job = tuple[str, Upgrade | Path, int]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of sessions a scenario (default 200)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--only", default="", help="regular expression on the scenarios' names")
    parser.add_argument("--page", type=Path, help="where to write the page (Markdown)")
    return parser.parse_args()


def count_job(job: Job) -> Row:
    name, upgrade, pairs = job
    count = Count()
    for k in range(pairs):
        verdicts = resampled(upgrade, k) if isinstance(upgrade, Path) else [compare_drawn(name, upgrade, k)]
        right = "" if isinstance(upgrade, Path) else RIGHT.get(upgrade.becomes, "")
        for verdict in verdicts:
            count.add(verdict, right)
    return {"scenario": name, **count.row()}


def jobs_of(only: str, pairs: int) -> list[Job]:
    """A stack against itself; recorded noise; slow-downs; regimes that changed."""
    jobs: list[Job] = [(name, upgrade, pairs) for name, upgrade in upgrades().items()]
    jobs += [(f"recorded/{file.stem}", file, pairs // 2) for file in recorded_files()]
    jobs += [(name, upgrade, pairs // 2) for name, upgrade in {**powers(), **moved_upgrades()}.items()]
    return [job for job in jobs if re.search(only, job[0])]


def main() -> int:
    args = parse_args()
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(threads, "1")  # the scenarios run in parallel, not the sums
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        rows = list(pool.imap(count_job, jobs_of(args.only, args.pairs), chunksize=2))
    text = render_page(rows, args.pairs)
    if args.page:
        args.page.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
