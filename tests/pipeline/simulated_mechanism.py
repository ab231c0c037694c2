"""Runs of a mechanism study on a simulated Mac whose allocator's pool outgrows its memory. Nothing is measured."""

import json
import zlib
from pathlib import Path

import numpy as np

from bench.mechanisms.study import simulate_cells
from bench.mechanisms.world import World
from speedbump.grid.cells import cell_id
from speedbump.tables import MEMORY_SAMPLES, REQUESTS, write_table

MACHINE = "simulated-36gb"
STACK = "macos-14.8_torch-2.8.0_transformers-4.57.6"
POOL = World(frozenset({"pool"}), usable_gb=4 + 33.0, hoards=True)
"""Beyond 33 GB of weights and pool, as with 504 tokens after 65, the system pages."""
CALM = World(frozenset(), usable_gb=165.0)


def write_run(folder: Path, cell: dict, world: World) -> Path:
    """The run file of a cell under ``folder``, as measure_cell would write it; samples beside a memory run's."""
    rng = np.random.default_rng(zlib.crc32(cell_id(cell).encode()))
    requests, samples = simulate_cells([cell], world, MACHINE, STACK, rng)
    environment = {"chip": "simulated", "os": "simulated", "ram_bytes": 36 * 2**30}
    record = {"cell": cell, "machine": MACHINE, "stack": STACK, "environment": environment, "wall_s": 1.0}
    footer = {"speedbump": json.dumps(record)}
    run = folder / "runs" / MACHINE / STACK / f"{cell_id(cell)}.parquet"
    write_table(requests, REQUESTS, run, footer)
    if not samples.is_empty():
        write_table(samples, MEMORY_SAMPLES, run.with_suffix(".memory.parquet"), footer)
    return run
