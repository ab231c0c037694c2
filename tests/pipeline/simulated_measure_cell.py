"""Stands in for scripts/measure_cell.py where a test needs a machine with a slow regime. Nothing is measured.

The simulated device takes 10 ms a token, and ten times as long while a budget is within SLOW. Of another day or stack
the environment says SIMULATED_SLOW, such as 110-163, or empty for no regime; SIMULATED_PACE, by which every time is
multiplied; and SIMULATED_DAY, text that makes other noise.
"""

import argparse
import json
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.tables import REQUESTS, write_table

SLOW = (100, 163)


def decode_s(axes: dict) -> float:
    """Seconds of decoding on the simulated device."""
    given = os.environ.get("SIMULATED_SLOW")
    first, last = SLOW if given is None else map(int, given.split("-")) if given else (1, 0)
    factor = 10 if first <= axes["n_gen"] <= last else 1
    return 0.01 * float(os.environ.get("SIMULATED_PACE", "1")) * factor * axes["n_gen"]


def simulate(cell: dict, machine: str, stack: str, decode_s: Callable[[dict], float] = decode_s) -> pl.DataFrame:
    """The requests of one fresh cell, decoding for ``decode_s`` of its axes with 1 % of noise."""
    random.seed(cell_id(cell) + os.environ.get("SIMULATED_DAY", ""))
    axes = axes_of(cell)
    rows = []
    for request in range(cell["warmups"] + cell["repeats"]):
        seconds = decode_s(axes) * random.lognormvariate(0, 0.01)
        rows.append(
            {
                **dict.fromkeys(REQUESTS.schema),
                **axes,
                "series": series_id(cell, machine, stack),
                "cell": cell_id(cell),
                "machine": machine,
                "stack": stack,
                "warmups": cell["warmups"],
                "repeats": cell["repeats"],
                "seed": cell["seed"],
                "attention_ran": "sdpa",
                "request": request,
                "phase": "warmup" if request < cell["warmups"] else "measured",
                "status": "ok",
                "lower_bound": False,
                "ttft_s": 0.02,
                "decode_s": seconds,
                "e2e_s": 0.02 + seconds,
                "tpot_s": seconds / axes["n_gen"],
                "finite": True,
                "sentinel_before_s": 0.03,
                "sentinel_after_s": 0.03,
                "started_at": datetime(2026, 1, 1, tzinfo=UTC),
            }
        )
    return pl.DataFrame(rows, schema=REQUESTS.schema)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("cell", "machine", "stack", "out", "limits", "models", "log"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args()
    cell = json.loads(args.cell)
    record = {
        "cell": cell,
        "machine": args.machine,
        "stack": args.stack,
        "environment": {"chip": "simulated"},
        "wall_s": 1.0,
    }
    table = simulate(cell, args.machine, args.stack)
    write_table(table, REQUESTS, Path(args.out), {"speedbump": json.dumps(record)})
    with Path("measured.log").open("a") as log:
        print(os.path.basename(args.out), file=log)  # noqa: PTH119


if __name__ == "__main__":
    main()
