"""Runs in the shape of the paper's figures, on a simulated machine. Nothing is measured, and its slug says so."""

import json
from pathlib import Path

import polars as pl

from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.tables import MEMORY_SAMPLES, REQUESTS, write_table

from .simulated_measure_cell import simulate

MACHINE = "simulated-36gb"
SMALL_MACHINE = "simulated-18gb"
STACK = "macos-14.8_torch-2.8.0_transformers-4.57.6"
OLD_STACK = "macos-14.8_torch-2.7.0_transformers-4.57.6"
ENVIRONMENT = {"chip": "simulated", "os": "simulated", "torch": "2.8.0"}

TOKEN_S = {
    "distilgpt2": 0.0062,
    "gpt2": 0.0078,
    "gpt2-medium": 0.0108,
    "gpt2-large": 0.0173,
    "bloom-560m": 0.035,
    "opt-350m": 0.018,
}
CPU_OVER_MPS = {"distilgpt2": 1.1, "gpt2": 1.4, "gpt2-medium": 2.9, "gpt2-large": 3.2}
SLOW = {
    ("gpt2-medium", 65): (512, 624, 10.0),
    ("gpt2-medium", 3): (520, 624, 12.0),
    ("gpt2-large", 65): (384, 511, 13.6),
    ("bloom-560m", 65): (512, 640, 4.5),
    ("opt-350m", 65): (512, 639, 8.5),
}
"""First and last slow budget on MPS, and the factor, by model and prompt."""
SLOW_ON_SMALL = {("distilgpt2", 65): (640, 640, 6.0), ("gpt2", 65): (512, 640, 8.0)}


def decode_s(axes: dict, slow: dict = SLOW) -> float:
    """What decoding takes: nearly linear in the budget, slow within a stretch on MPS, quadratic without a cache."""
    n_gen = axes["n_gen"]
    seconds = TOKEN_S[axes["model"]] * n_gen * (1 + n_gen / 4096)
    if axes["device"] == "cpu":
        return seconds * CPU_OVER_MPS[axes["model"]]
    first, last, factor = slow.get((axes["model"], axes["n_prompt"]), (1, 0, 1.0))
    if axes["kv_cache"] == "off":
        return seconds * (3 + n_gen / 64) * (1.8 if first <= n_gen <= last else 1)
    return seconds * (factor if first <= n_gen <= last else 1)


def write_run(folder: Path, cell: dict, machine: str = MACHINE, stack: str = STACK, slow: dict = SLOW) -> Path:
    """The run file of a cell under ``folder``, as measure_cell would write it; samples beside a memory run's."""
    axes = axes_of(cell)
    requests = simulate(cell, machine, stack, lambda axes: decode_s(axes, slow)).with_columns(
        tokens_hash=pl.lit(f"{axes['model']}-{axes['n_prompt']}-{axes['n_gen']}")
    )
    record = {"cell": cell, "machine": machine, "stack": stack, "environment": ENVIRONMENT, "wall_s": 1.0}
    footer = {"speedbump": json.dumps(record)}
    run = folder / "runs" / machine / stack / f"{cell_id(cell)}.parquet"
    write_table(requests, REQUESTS, run, footer)
    if axes["instrument"] == "memory":
        samples = samples_of(cell, machine, stack)
        write_table(samples, MEMORY_SAMPLES, run.with_suffix(".memory.parquet"), footer)
    return run


def samples_of(cell: dict, machine: str, stack: str) -> pl.DataFrame:
    """Live memory grows by 25 MB in 128 tokens; the system's grows up to 512 tokens and stays."""
    n_gen = cell["n_gen"]
    sample = dict.fromkeys(MEMORY_SAMPLES.schema) | {
        "series": series_id(cell, machine, stack),
        "cell": cell_id(cell),
        "machine": machine,
        "stack": stack,
        "n_gen": n_gen,
        "request": 0,
        "offset_s": 0.1,
        "torch_current_bytes": 1_401_000_000 + n_gen * 25_000_000 // 128,
        "system_used_bytes": 8_000_000_000 + 48_000_000 * min(n_gen, 512) + 3_000_000 * max(n_gen - 512, 0),
    }
    return pl.DataFrame([sample], schema=MEMORY_SAMPLES.schema)
