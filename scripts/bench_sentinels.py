#!/usr/bin/env python3
"""How well the sentinels tell which cells were disturbed, measured here and in what was recorded; writes the page.

Here: cells of one configuration on the CPU, some of them beside processes that do nothing but keep cores busy, the
kinds in a random order. Recorded: how far the processes of every series lie from their trend, against the sentinels.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import polars as pl

from bench.sentinels import SENTINELS, Agreement, Kind, agreements, score
from speedbump.analyse.bundle import read_bundle
from speedbump.grid.cells import cell_id
from speedbump.grid.machine import find_machine
from speedbump.grid.models import load_models
from speedbump.grid.stack import find_stack
from speedbump.grid.study import Limits
from speedbump.measure.environment import SENTINEL_DRIFT
from speedbump.measure.supervisor import measure_cell
from speedbump.tables import REQUESTS, read_table

MODELS = Path("config/models")
BUNDLES = Path("config/bundles")
RECORDED = Path("tests/recorded")
CELL = {"device": "cpu", "n_gen": 48, "n_prompt": 65, "warmups": 1, "repeats": 3, "seed": 1, "instrument": "step_sync"}
QUIET, ALL_CORES, HALF, PART = (
    "nothing",
    "every core busy throughout",
    "half the cores busy throughout",
    "every core busy from some moment to the end",
)
START_S = (3.0, 9.0)
"""When a disturbance that begins in mid-cell may begin."""
HEAD = """# What the sentinels tell

Written by `scripts/bench_sentinels.py`. Before and after each cell run two fixed pieces of work: matrix products, which
the device bounds, and many small operations, which the host bounds, as it does decoding at batch 1.

- *Drift*: the work took {drift:g} times as long after the cell as before, or as long before as after: the pipeline
  flags the cell.
- *Level*: as far from its median over the undisturbed cells. A series in which levels differ so much is called
  undetermined, "the machine was busy".
- *Others*: other processes used more of the cores than a quarter: the pipeline flags the cell. Neighbours in another
  container or virtual machine are not seen so.
"""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/sentinels.md"), metavar="FILE", help="the page")
    parser.add_argument("--model", default="distilgpt2")
    parser.add_argument("--cells", type=int, default=10, help="of each kind")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    load = os.getloadavg()[0]
    kinds = measure(args.model, args.cells)
    circumstances = (
        f"{args.model}, {CELL['n_gen']} tokens, {find_machine()}, {find_stack()}, {os.cpu_count()} cores, "
        f"{datetime.now(UTC):%Y-%m-%d}, load average {load:.1f} at the start."
    )
    recorded = [(name, found) for name, requests in recordings() for found in agreements(requests)]
    args.out.write_text(render(circumstances, kinds, recorded))
    print(args.out.read_text())


def measure(model: str, count: int) -> list[Kind]:
    """Cells of every kind, in a random order that is the same each time."""
    order = [kind for kind in (QUIET, HALF, ALL_CORES, PART) for _ in range(count)]
    draw = random.Random(1)
    draw.shuffle(order)
    tables, kinds = [], {}
    machine, stack = find_machine(), find_stack()
    with tempfile.TemporaryDirectory() as folder:
        for number, kind in enumerate(order, 1):
            cell = {**CELL, "model": model, "process": number, "model_digest": ""}
            out = Path(folder) / f"{cell_id(cell)}.parquet"
            delay_s = draw.uniform(*START_S) if kind == PART else 0.0
            with busy(0 if kind == QUIET else -(-(os.cpu_count() or 1) // (2 if kind == HALF else 1)), delay_s):
                outcome = measure_cell(
                    cell, load_models(MODELS)[model], machine, stack, out, Limits(allow_battery=True)
                )
            print(f"{number} of {len(order)}: {kind}: {outcome}", file=sys.stderr, flush=True)
            tables.append(read_table(out, REQUESTS))
            kinds[out.stem] = kind
    return score(pl.concat(tables), kinds, QUIET)


@contextmanager
def busy(processes: int, delay_s: float) -> Iterator[None]:
    """So many processes keep a core busy each, from after the delay on. They are waited for at the end alone: until
    then their time is another's, not this process's.
    """
    burners: list[subprocess.Popen[bytes]] = []
    ended = False

    def start() -> None:
        time.sleep(delay_s)
        if not ended:
            burners.extend(subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes))

    starter = Thread(target=start)
    starter.start()
    try:
        yield
    finally:
        ended = True
        starter.join()
        for burner in burners:
            burner.kill()
            burner.wait()


def recordings() -> Iterator[tuple[str, pl.DataFrame]]:
    """Requests that were recorded, by where they lie in the repository."""
    for file in sorted(RECORDED.glob("*.parquet")):
        yield str(file), read_table(file, REQUESTS)
    for file in sorted(BUNDLES.glob("*.zip")):
        yield str(file), read_bundle(file)[0].requests


def render(circumstances: str, kinds: list[Kind], recorded: list[tuple[str, Agreement]]) -> str:
    """The whole page, as Markdown."""
    signs = [f"{sign} of the {bound}" for sign in ("drift", "level") for bound in SENTINELS]
    lines = [HEAD.format(drift=SENTINEL_DRIFT), "## Cells disturbed on purpose", "", circumstances, ""]
    lines += [f"| beside | cells | latency | {' | '.join(signs)} | others |", f"|---|{'---:|' * (3 + len(signs))}"]
    for kind in kinds:
        told = [*kind.drift.values(), *kind.level.values(), kind.others]
        lines.append(f"| {kind.kind} | {kind.cells} | {kind.slowdown:.2f}x | {' | '.join(map(str, told))} |")
    lines += [
        "",
        "## Recorded curves",
        "",
        "Standard deviations of logarithms, over the processes of every series.",
        "",
    ]
    lines += [
        "| file | sentinel | processes | latency over trend | sentinel | correlation |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for file, found in recorded:
        lines.append(
            f"| {file} | {found.sentinel} | {found.processes} | {found.latency_sd:.3f} | {found.sentinel_sd:.3f} "
            f"| {found.correlation:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
