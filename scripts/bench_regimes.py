#!/usr/bin/env python3
"""Score the regime finder on simulated series of known truth, and write the page with the result.

Every series is drawn from its scenario's name, its number and --seed: the figures come out the same again, times
aside. Numbers of the method were chosen on seeds below 100, so the page is made with another.

    python scripts/bench_regimes.py --family 'load/*' --series 50     a line a scenario and a family, and their goals
"""

import argparse
import csv
import fnmatch
import multiprocessing
import os
import sys
import time
from pathlib import Path

from bench.answers import answer
from bench.curves import Scenario
from bench.noticed import NoticedScore, noticed_scenarios, render_noticed, score_noticed
from bench.page import render_page, render_summary
from bench.refinement import EdgeSummary, summarise_edges
from bench.scenarios import all_scenarios
from bench.scoring import score, score_after_confirmation, score_tables
from bench.thresholds import theil_sen_ratio, trimmed_envelope

METHODS = {"regimes": answer, "theil_sen_ratio": theil_sen_ratio, "trimmed_envelope": trimmed_envelope}
EDGE_SLOWDOWNS = (10.0, 4.0, 2.0)

Row = dict[str, float | int | str | None]
Job = tuple[str, str, Scenario, int, int]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=200, help="series a scenario (default 200)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0; pages: 100 and above)")
    parser.add_argument(
        "--family",
        metavar="NAME",
        help="score these scenarios alone and print a summary: a pattern of their names, such as steps or 'load/*/n10'",
    )
    parser.add_argument("--page", type=Path, help="where to write the page (Markdown)")
    parser.add_argument("--csv", type=Path, help="where to write the figures of every scenario and method")
    return parser.parse_args()


def score_job(job: Job) -> Row:
    name, method, scenario, n_series, seed = job
    if method != "regimes":
        scored = score(name, scenario, n_series, METHODS[method], seed)
    elif scenario.table:
        scored = score_tables(name, scenario, n_series, seed)
    elif scenario.confirm:
        scored = score_after_confirmation(name, scenario, n_series, seed)
    else:
        scored = score(name, scenario, n_series, seed=seed)
    return {"scenario": name, "method": method, **scored.row()}


def edge_job(job: tuple[float, int, int]) -> EdgeSummary:
    return summarise_edges(*job)


def noticed_job(job: tuple[str, Scenario, int, bool]) -> NoticedScore:
    return score_noticed(*job)


def jobs_of(family: str | None, n_series: int, seed: int) -> list[Job]:
    """Every scenario for the regime finder, and those measured in one process for the thresholds."""
    jobs: list[Job] = []
    for name, scenario in all_scenarios().items():
        if family and not (fnmatch.fnmatch(name, family) or name.startswith(f"{family}/")):
            continue
        alone = family or scenario.confirm or scenario.table or scenario.n > 100
        jobs += [(name, method, scenario, n_series, seed) for method in (["regimes"] if alone else METHODS)]
    return jobs


def main() -> int:
    args = parse_args()
    if args.page and args.family:
        sys.exit("bench_regimes: a page shows every scenario; leave out --family or --page")
    start = time.monotonic()
    jobs = jobs_of(args.family, args.series, args.seed)
    if not jobs:
        sys.exit(f"bench_regimes: no scenario is named like {args.family!r}")
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(threads, "1")  # the scenarios run in parallel, not the sums
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        rows = []
        for done, row in enumerate(pool.imap(score_job, jobs, chunksize=4), 1):
            rows.append(row)
            if done % 100 == 0:
                print(f"{done} of {len(jobs)}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        edge_jobs = [] if args.family else [(f, max(args.series // 4, 1), args.seed) for f in EDGE_SLOWDOWNS]
        edges = pool.map(edge_job, edge_jobs)
        kinds, n_noticed = noticed_scenarios(), max(args.series // 2, 1)
        asked = [] if args.family else [(name, end) for name in kinds for end in (False, True)]
        noticed = pool.map(noticed_job, [(name, kinds[name], n_noticed, end) for name, end in asked], chunksize=1)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    if args.family:
        print(render_summary(rows))
        return 0
    text = render_page(rows, edges, args.series, args.seed)
    text += render_noticed(dict(zip(asked, noticed, strict=True)), n_noticed)
    if args.page:
        args.page.parent.mkdir(parents=True, exist_ok=True)
        args.page.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
