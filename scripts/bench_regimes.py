#!/usr/bin/env python3
"""Score the regime finder on simulated series of known truth, and write the page with the result.

Every scenario's series are drawn from seeds made of its name: the figures come out the same again, times aside.
"""

import argparse
import csv
import multiprocessing
import os
import re
import sys
import time
from pathlib import Path

from bench.answers import answer
from bench.curves import Scenario
from bench.noticed import NoticedScore, noticed_scenarios, render_noticed, score_noticed
from bench.page import render_page
from bench.refinement import EdgeSummary, summarise_edges
from bench.scenarios import all_scenarios
from bench.scoring import score, score_after_confirmation
from bench.thresholds import theil_sen_ratio, trimmed_envelope

METHODS = {"regimes": answer, "theil_sen_ratio": theil_sen_ratio, "trimmed_envelope": trimmed_envelope}
EDGE_SLOWDOWNS = (10.0, 4.0, 2.0)

Row = dict[str, float | int | str | None]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=200, help="series a scenario (default 200)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--only", default="", help="regular expression on the scenarios' names")
    parser.add_argument("--page", type=Path, help="where to write the page (Markdown)")
    parser.add_argument("--csv", type=Path, help="where to write the figures of every scenario and method")
    return parser.parse_args()


def score_job(job: tuple[str, str, Scenario, int]) -> Row:
    name, method, scenario, n_series = job
    if scenario.confirm and method == "regimes":
        scored = score_after_confirmation(name, scenario, n_series)
    else:
        scored = score(name, scenario, n_series, METHODS[method])
    return {"scenario": name, "method": method, **scored.row()}


def edge_job(job: tuple[float, int]) -> EdgeSummary:
    return summarise_edges(*job)


def noticed_job(job: tuple[str, Scenario, int, bool]) -> NoticedScore:
    return score_noticed(*job)


def jobs_of(only: str, n_series: int) -> list[tuple[str, str, Scenario, int]]:
    """Every scenario for the regime finder, and those measured in one process for the thresholds."""
    jobs: list[tuple[str, str, Scenario, int]] = []
    for name, scenario in all_scenarios().items():
        if not re.search(only, name):
            continue
        share = 10 if scenario.n > 100 else 4 if scenario.confirm else 1
        methods = ["regimes"] if scenario.confirm or scenario.n > 100 else list(METHODS)
        jobs += [(name, method, scenario, max(n_series // share, 1)) for method in methods]
    return jobs


def main() -> int:
    args = parse_args()
    start = time.monotonic()
    jobs = jobs_of(args.only, args.series)
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ.setdefault(threads, "1")  # the scenarios run in parallel, not the sums
    with multiprocessing.get_context("spawn").Pool(args.jobs) as pool:
        rows = []
        for done, row in enumerate(pool.imap(score_job, jobs, chunksize=4), 1):
            rows.append(row)
            if done % 100 == 0:
                print(f"{done} of {len(jobs)}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        edges = pool.map(edge_job, [(f, max(args.series // 4, 1)) for f in EDGE_SLOWDOWNS]) if not args.only else []
        asked = [] if args.only else [(name, end) for name in noticed_scenarios() for end in (False, True)]
        n_noticed = max(args.series // 2, 1)
        kinds = noticed_scenarios()
        noticed = pool.map(noticed_job, [(name, kinds[name], n_noticed, end) for name, end in asked], chunksize=1)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    text = render_page(rows, edges, args.series)
    if asked:
        text += render_noticed(dict(zip(asked, noticed, strict=True)), n_noticed)
    if args.page:
        args.page.parent.mkdir(parents=True, exist_ok=True)
        args.page.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
