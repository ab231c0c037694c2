"""Stands in for scripts/measure_cell.py where a test needs a machine with a slow regime. Nothing is measured.

The simulated device takes 10 ms a token, and ten times as long while a budget is within SLOW. A stack whose name
holds "upgraded" has its own slow budgets, by the length of the prompt. SIMULATED_SLOW in the environment overrules it,
such as 110-163, or empty for no regime; SIMULATED_PACE multiplies every time.
"""

import argparse
import json
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import polars as pl

from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.tables import REQUESTS, write_table

SLOW = (100, 163)
NOWHERE = (0, 0)
BEFORE = {5: SLOW, 9: SLOW, 13: NOWHERE}
UPGRADED = {5: (132, 195), 9: NOWHERE, 13: (180, 230)}
"""After the upgrade one regime has moved by 32 tokens, one is gone, and one is new."""


def decode_s(axes: dict, slow: dict[int, tuple[int, int]] = BEFORE) -> float:
    """Seconds of decoding on the simulated device."""
    given = os.environ.get("SIMULATED_SLOW")
    first, last = slow[axes["n_prompt"]] if given is None else map(int, given.split("-")) if given else NOWHERE
    factor = 10 if first <= axes["n_gen"] <= last else 1
    return 0.01 * float(os.environ.get("SIMULATED_PACE", "1")) * factor * axes["n_gen"]


def simulate(cell: dict, machine: str, stack: str, decode_s: Callable[[dict], float] = decode_s) -> pl.DataFrame:
    """The requests of one fresh cell, decoding for ``decode_s`` of its axes with 1 % of noise."""
    random.seed(cell_id(cell) + stack)
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
    slow = UPGRADED if "upgraded" in args.stack else BEFORE
    table = simulate(cell, args.machine, args.stack, partial(decode_s, slow=slow))
    write_table(table, REQUESTS, Path(args.out), {"speedbump": json.dumps(record)})
    with Path("measured.log").open("a") as log:
        print(os.path.basename(args.out), file=log)  # noqa: PTH119


if __name__ == "__main__":
    main()
