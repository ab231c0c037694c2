"""How long cells will take: a stated guess, scaled by what has been measured on the machine."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from speedbump.grid.axes import REST
from speedbump.grid.cells import Cell, complete
from speedbump.grid.models import BYTES_PER_VALUE, Model

START_S = 10.0
"""Guess for a process to import torch, build the model and settle."""

STEP_GUESS_S = {"cpu": (0.004, 1e10), "mps": (0.004, 1.2e11), "cuda": (0.004, 1e12)}
"""Guess for one decode step: a fixed part in seconds, and bytes of weights read a second."""

SLOW_FACTOR = 20
"""The slowest regime the paper saw was about 21 times slower."""

FILL_GB_S = 1.0
"""Guess for a ballast to be filled."""


def guess_s(cell: Cell, model: Model) -> float:
    """Seconds the cell would take at normal speed, from the model's size alone."""
    whole = complete(cell)
    budgets = cell.get("sequence") or [whole["n_gen"]]
    fixed, rate = STEP_GUESS_S[whole["device"]]
    weights = model.parameters * BYTES_PER_VALUE[whole["dtype"]]
    step = fixed + weights / rate
    requests = cell["warmups"] + (1 if whole["instrument"] == "profile" else cell["repeats"])
    total = 0.0
    for n_gen in budgets:
        length = whole["n_prompt"] + n_gen
        growth = 1 + length / 64 if whole["kv_cache"] == "off" else 1 + length / 4096
        one = n_gen * step * growth
        total += requests * min(one, cell.get("request_limit_s", one))
    return START_S + total + _beside_s(whole, requests * len(budgets), total)


def _beside_s(whole: Cell, requests: int, total: float) -> float:
    """Seconds beside those of the cell's own requests, which take ``total``."""
    rest = REST.fullmatch(whole["between_requests"])
    rests_s = float(rest[1]) * (requests - 1) if rest else 0.0
    before_s = START_S + total / requests * max(1, whole["warmups"]) if whole["predecessor"] == "running" else 0.0
    fill_s: float = whole["ballast_gb"] / FILL_GB_S
    return rests_s + before_s + fill_s


def read_records(files: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Metadata of the run files that can be read."""
    from speedbump.tables import TableError, read_metadata  # here, since polars would slow down every start

    for file in files:
        try:
            yield json.loads(read_metadata(file)["speedbump"])
        except (TableError, KeyError, ValueError):
            continue


def measured_scale(records: Iterable[Mapping[str, Any]], models: Mapping[str, Model]) -> dict[str, float]:
    """Per device the median of measured over guessed seconds; a device without a record is absent."""
    ratios: dict[str, list[float]] = {}
    for record in records:
        cell = record["cell"]
        if cell["model"] in models:
            ratios.setdefault(cell["device"], []).append(record["wall_s"] / guess_s(cell, models[cell["model"]]))
    return {device: statistics.median(values) for device, values in ratios.items()}


def estimate_s(cell: Cell, model: Model, scale: Mapping[str, float]) -> float:
    """Seconds the cell will take at normal speed."""
    return guess_s(cell, model) * scale.get(cell["device"], 1.0)


def in_words(seconds: float) -> str:
    """``40 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
