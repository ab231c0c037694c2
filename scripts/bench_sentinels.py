#!/usr/bin/env python3
"""How well the sentinels tell which cells were disturbed, measured here and in what was recorded; writes the page.

Here: cells of one configuration, some of them beside processes that do nothing but keep cores busy, the kinds in a
random order. Recorded: how far the processes of every series lie from their trend, and their requests from one
another, against the sentinels and the flags.
"""

import argparse
import functools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import polars as pl

from bench.sentinels import agreements, busy, drifts, flags, score
from bench.sentinels_page import render_page, render_section
from speedbump.analyse.bundle import read_bundle
from speedbump.grid.cells import Cell, cell_id
from speedbump.grid.listing import visible
from speedbump.grid.machine import find_machine
from speedbump.grid.models import load_models
from speedbump.grid.stack import find_stack
from speedbump.grid.study import Limits
from speedbump.measure.supervisor import measure_cell
from speedbump.tables import REQUESTS, read_table

Found = TypeVar("Found")

MODELS = Path("config/models")
BUNDLES = Path("config/bundles")
RECORDED = Path("tests/recorded")
CELL = {"n_gen": 32, "n_prompt": 65, "warmups": 1, "repeats": 3, "seed": 1, "instrument": "step_sync"}
CORES = os.cpu_count() or 1
QUIET, LATE = "nothing", "every core busy from some request on"
BUSY = {QUIET: 0, "half the cores busy throughout": -(-CORES // 2), "every core busy throughout": CORES, LATE: CORES}
"""Processes beside a cell, by what the page calls it."""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/sentinels.md"), metavar="FILE", help="the page")
    parser.add_argument("--device", default="cpu", choices=("cpu", "mps", "cuda"))
    parser.add_argument("--model", default="distilgpt2")
    parser.add_argument("--cells", type=int, default=8, help="of each kind; 0: only what is recorded")
    args = parser.parse_args()
    if args.cells < 0:
        parser.error("--cells: 0 or more")
    if not args.out.parent.is_dir():
        parser.error(f"--out: {args.out.parent}: no such folder")
    return args


def main() -> None:
    args = parse_args()
    recorded()  # what is broken there is said before anything is measured
    section = measured_section(args) if args.cells else ""
    args.out.write_text(render_page(args.out, section, *(from_recorded(find) for find in (agreements, flags, drifts))))
    print(args.out.read_text())


def measured_section(args: argparse.Namespace) -> str:
    """The page's section of this machine and device, measured now."""
    load = os.getloadavg()[0]
    requests, kinds = measure({**CELL, "device": args.device, "model": args.model}, args.cells)
    own = list(agreements(requests.filter(pl.col("cell").replace_strict(kinds) == QUIET)))
    circumstances = (
        f"{args.model}, {CELL['n_gen']} tokens, {find_stack()}, {CORES} cores, {datetime.now(UTC):%Y-%m-%d}, load "
        f"average {load:.1f} at the start."
    )
    return render_section(f"{find_machine()}, {args.device}", circumstances, score(requests, kinds, QUIET), own)


def measure(cell: Cell, count: int) -> tuple[pl.DataFrame, dict[str, str]]:
    """The requests of so many cells of every kind, and each cell's kind. Their order is random, the same each time."""
    draw = random.Random(1)
    order = [kind for kind in BUSY for _ in range(count)]
    draw.shuffle(order)
    tables, kinds = [], {}
    with tempfile.TemporaryDirectory() as folder:
        first_s, last_s = measure_one(cell, 0, Path(folder), 0, 0.0)[1:]  # of the requests; not counted
        for number, kind in enumerate(order, 1):
            delay_s = draw.uniform(first_s, first_s + 0.7 * (last_s - first_s)) if kind == LATE else 0.0
            table, *_ = measure_one(cell, number, Path(folder), BUSY[kind], delay_s)
            print(f"{number} of {len(order)}: {kind}", file=sys.stderr, flush=True)
            tables.append(table)
            kinds[table["cell"][0]] = kind
    return pl.concat(tables), kinds


def measure_one(
    cell: Cell, number: int, folder: Path, processes: int, delay_s: float
) -> tuple[pl.DataFrame, float, float]:
    """A cell's requests, and when the first began and the last ended, in seconds from the cell's start."""
    cell = {**cell, "process": number + 1, "model_digest": ""}
    out = folder / f"{cell_id(cell)}.parquet"
    model = load_models(MODELS)[cell["model"]]
    start_s = time.time()
    with busy(processes, delay_s):
        measure_cell(cell, model, find_machine(), find_stack(), out, Limits(allow_battery=True))
    table = read_table(out, REQUESTS)
    starts_s = table["started_at"].dt.epoch("us") / 1e6 - start_s
    return table, float(starts_s[0]), float(starts_s[-1] + table["e2e_s"][-1])


def from_recorded(find: Callable[[pl.DataFrame], Iterable[Found]]) -> list[tuple[str, Found]]:
    """What is found in recorded requests, each with the file it was found in."""
    return [(file, found) for file, requests in recorded().items() for found in find(requests)]


@functools.cache
def recorded() -> dict[str, pl.DataFrame]:
    """Requests that were recorded, by where they lie in the repository."""
    tables = {str(file): read_table(file, REQUESTS) for file in visible(RECORDED, "**/*.parquet")}
    return tables | {str(file): read_bundle(file)[0].requests for file in visible(BUNDLES, "*.zip")}


if __name__ == "__main__":
    main()
