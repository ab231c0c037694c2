#!/usr/bin/env python3
"""Compare simulated stacks with themselves, and with slower ones, and write the page with what was found.

Every pair of sessions is drawn from its scenario's name, its number and --seed: the figures come out the same again.
Numbers of the method were chosen on seeds below 100, so the page is made with another.
"""

import argparse
import fnmatch
import multiprocessing
import os
import sys
from pathlib import Path

from bench.upgrades import (
    RIGHT,
    Count,
    OneSided,
    Upgrade,
    compare_drawn,
    compare_one_sided,
    moved_upgrades,
    one_sided,
    powers,
    recorded_files,
    resampled,
    upgrades,
)
from bench.upgrades_page import Row, render_page

Job = tuple[str, Upgrade | OneSided | Path, int, int]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of sessions a scenario (default 200)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0; pages: 100 and above)")
    parser.add_argument("--family", metavar="NAME", help="these scenarios alone: a pattern of names, such as 'busy/*'")
    parser.add_argument("--page", type=Path, help="where to write the page (Markdown)")
    return parser.parse_args()


def count_job(job: Job) -> Row:
    name, upgrade, pairs, seed = job
    count = Count()
    for k in range(pairs):
        if isinstance(upgrade, OneSided):
            count.add_row(compare_one_sided(name, upgrade, k, seed))
        elif isinstance(upgrade, Path):
            for verdict in resampled(upgrade, k, seed):
                count.add(verdict)
        else:
            count.add(compare_drawn(name, upgrade, k, seed), RIGHT.get(upgrade.becomes, ""))
    return {"scenario": name, **count.row()}


def jobs_of(family: str | None, pairs: int, seed: int) -> list[Job]:
    """A stack against itself, in recorded noise and beside a load as well; slow-downs; regimes that changed."""
    jobs: list[Job] = [(name, upgrade, pairs, seed) for name, upgrade in {**upgrades(), **one_sided()}.items()]
    jobs += [(f"recorded/{file.stem}", file, pairs // 2, seed) for file in recorded_files()]
    jobs += [(name, upgrade, pairs // 2, seed) for name, upgrade in {**powers(), **moved_upgrades()}.items()]
    return [job for job in jobs if not family or fnmatch.fnmatch(job[0], family) or job[0].startswith(f"{family}/")]


def main() -> int:
    args = parse_args()
    if args.page and args.family:
        sys.exit("bench_changes: a page shows every scenario; leave out --family or --page")
    jobs = jobs_of(args.family, args.pairs, args.seed)
    if not jobs:
        sys.exit(f"bench_changes: no scenario is named like {args.family!r}")
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(threads, "1")  # the scenarios run in parallel, not the sums
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        rows = list(pool.imap(count_job, jobs, chunksize=2))
    text = render_page(rows, args.pairs, args.seed)
    if args.page:
        args.page.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
