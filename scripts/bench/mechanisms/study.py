"""A mechanism study on a simulated machine: its cells, and the rows that measuring them would give."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from bench.mechanisms.world import GB, Passed, Process, World
from speedbump.grid.axes import DEFAULTS, REST
from speedbump.grid.cells import Cell, axes_of, cell_id, series_id
from speedbump.tables import MEMORY_SAMPLES, REQUESTS

STACK = "simulated-1.0_torch-0.0.0_transformers-0.0.0"
LENGTHS = tuple(range(128, 769, 64))
PROTOCOL = {"warmups": 3, "repeats": 5, "seed": 1}
GAP_S = 0.05
SAMPLES = 20
REQUEST_SCHEMA, SAMPLE_SCHEMA = REQUESTS.schema, MEMORY_SAMPLES.schema
START = datetime(2026, 1, 5, 20, 0, tzinfo=UTC)

PLAIN: dict[str, Any] = {"model": "gpt2-medium", "device": "mps", "instrument": "step_sync"}
ARMS: tuple[dict[str, Any], ...] = (
    {},
    {"process": 2},
    {"instrument": "per_step"},
    {"instrument": "memory"},
    {"kv_cache": "static"},
    {"kv_cache": "off"},
    {"attention": "eager"},
    {"between_requests": "empty_cache"},
    {"between_requests": "rest_10s"},
    {"n_prompt": 3},
    {"dtype": "float16"},
    {"ballast_gb": 8},
    {"watermark": "high_0.0"},
    {"watermark": "high_1.3"},
    {"predecessor": "running"},
    {"lifetime": "persistent", "order": "ascending"},
    {"lifetime": "persistent", "order": "descending"},
    {"lifetime": "persistent", "order": "shuffled"},
)
"""Each differs from the reference, the first, in one thing."""


def machine_of(name: str, world: World) -> str:
    """The slug of a simulated machine; no measured one begins like it."""
    return f"simulated-{name}-{world.memory_gb}gb"


def study_cells() -> list[Cell]:
    """Every cell of the study."""
    cells = []
    for arm in ARMS:
        if arm.get("lifetime") == "persistent":
            order = list(LENGTHS)
            if arm["order"] == "descending":
                order.reverse()
            elif arm["order"] == "shuffled":
                np.random.default_rng(1).shuffle(order)
            cells.append({**PLAIN, **arm, **PROTOCOL, "sequence": order})
        else:
            cells += [{**PLAIN, **arm, **PROTOCOL, "n_gen": n_gen} for n_gen in LENGTHS]
    return cells


def simulate_study(world: World, machine: str, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame]:
    """tables.REQUESTS and tables.MEMORY_SAMPLES of the whole study."""
    measured = [simulate_cell(cell, world, machine, STACK, rng) for cell in study_cells()]
    requests = [row for rows, _ in measured for row in rows]
    samples = [row for _, rows in measured for row in rows]
    return pl.DataFrame(requests, schema=REQUEST_SCHEMA), pl.DataFrame(samples, schema=SAMPLE_SCHEMA)


def simulate_cell(
    cell: Cell, world: World, machine: str, stack: str, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the cell's requests, and its memory samples where it is a memory run."""
    axes = {**DEFAULTS, **axes_of(cell), **{k: v for k, v in cell.items() if k in _LATE}}
    process = Process(world, axes, rng)
    place = {"series": series_id(cell, machine, stack), "cell": cell_id(cell), "machine": machine, "stack": stack}
    fixed = {**place, **{k: v for k, v in axes.items() if k in REQUEST_SCHEMA}, **_protocol(cell)}
    fixed |= {"attention_ran": "eager" if axes["attention"] == "eager" else "sdpa", "status": "ok", "finite": True}
    before_s = process.sentinel_s()
    rows, samples, at_s = [], [], 0.0
    for request, (phase, n_gen) in enumerate(_requests(cell)):
        gap_s = _pause(process, axes["between_requests"]) if request else None
        passed = process.run(n_gen)
        e2e_s, ttft_s = float(passed.step_s.sum()), float(passed.step_s[0])
        memory = _memory(passed, -1)
        at_s += e2e_s + (gap_s or 0.0)
        rows.append(
            {
                **fixed,
                "n_gen": n_gen,
                "request": request,
                "phase": phase,
                "lower_bound": False,
                "ttft_s": ttft_s,
                "decode_s": e2e_s - ttft_s,
                "e2e_s": e2e_s,
                "tpot_s": (e2e_s - ttft_s) / (n_gen - 1) if n_gen > 1 else None,
                "gap_s": gap_s,
                "tokens_hash": f"{axes['n_prompt']:04}{n_gen:04}",
                "distinct_tokens": min(n_gen, 50),
                **memory,
                "sentinel_before_s": before_s,
                "started_at": START + timedelta(seconds=at_s - e2e_s),
                "step_s": passed.step_s.tolist() if axes["instrument"] == "per_step" else None,
            }
        )
        if axes["instrument"] == "memory":
            samples += _samples(place, n_gen, request, passed)
    after_s = process.sentinel_s()
    return [{**row, "sentinel_after_s": after_s} for row in rows], samples


_LATE = ("ballast_gb", "watermark", "predecessor", "compile")


def _protocol(cell: Cell) -> dict[str, Any]:
    return {name: cell[name] for name in PROTOCOL}


def _requests(cell: Cell) -> Iterator[tuple[str, int]]:
    budgets = cell.get("sequence") or [cell["n_gen"]]
    yield from [("warmup", budgets[0])] * cell["warmups"]
    yield from (("measured", n_gen) for n_gen in budgets for _ in range(cell["repeats"]))


def _pause(process: Process, between: str) -> float:
    """What happens between two requests; seconds it took."""
    rest = REST.fullmatch(between)
    seconds = float(rest[1]) if rest else GAP_S
    if between == "empty_cache":
        process.empty_cache()
    process.rest(seconds)
    return seconds


def _memory(passed: Passed, step: int) -> dict[str, int]:
    """Counters after a step, in bytes."""
    driver, swap = passed.driver_gb[step], passed.swap_gb[step]
    gigabytes = {
        "torch_current_bytes": passed.live_gb[step],
        "torch_driver_bytes": driver,
        "rss_bytes": passed.resident_gb,
        "footprint_bytes": passed.resident_gb + driver,
        "system_used_bytes": passed.used_gb[step] - swap,
        "swap_used_bytes": swap,
    }
    return {name: int(GB * value) for name, value in gigabytes.items()}


def _samples(place: dict[str, Any], n_gen: int, request: int, passed: Passed) -> Iterator[dict[str, Any]]:
    ends_s = np.cumsum(passed.step_s)
    for step in np.linspace(0, n_gen - 1, SAMPLES).astype(int):
        yield {**place, "n_gen": n_gen, "request": request, "offset_s": float(ends_s[step]), **_memory(passed, step)}
