"""A mechanism study on a simulated machine: its cells, and the rows that measuring them would give."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl

from bench.mechanisms.world import GB, Passed, Process, World
from speedbump.analyse.regimes import find_regimes
from speedbump.grid.axes import REST
from speedbump.grid.cells import Cell, axes_of, cell_id, series_id
from speedbump.plan.known_regimes import KnownRegime, deciding_budgets
from speedbump.tables import MEMORY_SAMPLES, REQUESTS

STACK = "simulated-1.0_torch-0.0.0_transformers-0.0.0"
SCANNED = tuple(range(128, 769, 32))
"""Lengths of the scan from which the study takes its own."""
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
    {"watermark": "high_2.0"},
    {"watermark": "high_1.0"},
    {"predecessor": "running"},
    {"lifetime": "persistent", "order": "ascending"},
    {"lifetime": "persistent", "order": "descending"},
    {"lifetime": "persistent", "order": "shuffled"},
)
"""Each differs from the reference, the first, in one thing."""


def machine_of(name: str, world: World) -> str:
    """The slug of a simulated machine; no measured one begins like it."""
    return f"simulated-{name}-{world.memory_gb}gb"


def study_cells(lengths: Sequence[int]) -> list[Cell]:
    """Every cell of the study."""
    cells = []
    for arm in ARMS:
        if arm.get("lifetime") == "persistent":
            order = sorted(lengths, reverse=arm["order"] == "descending")
            if arm["order"] == "shuffled":
                np.random.default_rng(1).shuffle(order)
            cells.append({**PLAIN, **arm, **PROTOCOL, "sequence": order})
        else:
            cells += [{**PLAIN, **arm, **PROTOCOL, "n_gen": n_gen} for n_gen in lengths]
    return cells


def lengths_around(world: World, machine: str, rng: np.random.Generator) -> list[int]:
    """The lengths that the pipeline would choose after a scan: both sides of each edge, some inside, some normal."""
    scan = [{**PLAIN, **PROTOCOL, "n_gen": n_gen} for n_gen in SCANNED]
    requests, _ = simulate_cells(scan, world, machine, STACK, rng)
    found = [
        KnownRegime(**{name: row[name] for name in KnownRegime.model_fields})
        for row in find_regimes(requests, notice=False).regimes.filter("accepted").iter_rows(named=True)
    ]
    return sorted(deciding_budgets(found, list(SCANNED), 4, 2))


def simulate_study(
    world: World, machine: str, rng: np.random.Generator, lengths: Sequence[int] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """tables.REQUESTS and tables.MEMORY_SAMPLES of the whole study, at these lengths or around what a scan finds."""
    chosen = lengths or lengths_around(world, machine, rng)
    return simulate_cells(study_cells(chosen), world, machine, STACK, rng)


def simulate_cells(
    cells: Iterable[Cell], world: World, machine: str, stack: str, rng: np.random.Generator
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """tables.REQUESTS and tables.MEMORY_SAMPLES of the cells."""
    measured = [simulate_cell(cell, world, machine, stack, rng) for cell in cells]
    requests = [row for rows, _ in measured for row in rows]
    samples = [row for _, rows in measured for row in rows]
    return pl.DataFrame(requests, schema=REQUEST_SCHEMA), pl.DataFrame(samples, schema=SAMPLE_SCHEMA)


def simulate_cell(
    cell: Cell, world: World, machine: str, stack: str, rng: np.random.Generator
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the cell's requests, and its memory samples where it is a memory run."""
    axes = axes_of(cell)
    process = Process(world, axes, rng)
    place = {"series": series_id(cell, machine, stack), "cell": cell_id(cell), "machine": machine, "stack": stack}
    fixed = {**place, **axes, **{name: cell[name] for name in PROTOCOL}}
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
