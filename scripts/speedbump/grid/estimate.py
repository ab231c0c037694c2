"""What cells will cost: time, a stated guess scaled by what has been measured on the machine; and memory."""

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from speedbump.grid.axes import REST
from speedbump.grid.cells import Cell, complete
from speedbump.grid.models import BYTES_PER_VALUE, Model, memory_need

START_S = 10.0
"""Guess for a process to import torch, build the model and settle."""

STEP_GUESS_S = {"cpu": (0.004, 1e10), "mps": (0.004, 1.2e11), "cuda": (0.004, 1e12)}
"""Guess for one decode step: a fixed part in seconds, and bytes of weights read a second."""

SLOW_FACTOR = 20
"""The slowest regime the paper saw was about 21 times slower."""

FILL_GB_S = 1.0
"""Guess for a ballast to be filled."""

FIT_SHARE = 0.7
"""Of the machine's memory: what a cell may need and leave the system room. Above it the system begins to compress and
to swap."""


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
    """Per device the median of measured over guessed seconds; a device without a record is absent. A cell that started
    no request says nothing of its speed.
    """
    ratios: dict[str, list[float]] = {}
    for record in records:
        cell = record["cell"]
        if cell["model"] in models and record.get("requests_started") != 0:
            ratios.setdefault(cell["device"], []).append(record["wall_s"] / guess_s(cell, models[cell["model"]]))
    return {device: statistics.median(values) for device, values in ratios.items()}


def estimate_s(cell: Cell, model: Model, scale: Mapping[str, float]) -> float:
    """Seconds the cell will take at normal speed."""
    return guess_s(cell, model) * scale.get(cell["device"], 1.0)


def cell_need(cell: Cell, model: Model) -> float:
    """Bytes that the cell's processes are predicted to need; 0 on CUDA, whose memory is its own."""
    whole = complete(cell)
    if whole["device"] == "cuda":
        return 0.0
    n_gen = max(cell.get("sequence") or [whole["n_gen"]])
    axes = {name: whole[name] for name in ("dtype", "device", "n_prompt", "kv_cache", "batch")}
    need = memory_need(model, n_gen=n_gen, **axes)
    return float(need * (2 if whole["predecessor"] == "running" else 1) + whole["ballast_gb"] * 2**30)


def what_fits(
    model: Model,
    device: str,
    memory_bytes: float,
    n_gen: int,
    others: Iterable[Model] = (),
    *,
    dtype: str = "float32",
    n_prompt: int = 65,
    kv_cache: str = "dynamic",
    batch: int = 1,
) -> dict[str, Any]:
    """What would fit FIT_SHARE of the machine's memory where a model at a length does not.

    memory_bytes: the machine's.  n_gen: the length, in tokens.  others: models to choose from, such as all of a folder;
    the model itself may be among them.  Returns plain data:
      need_bytes: what the model needs at the length.  room_bytes: what fits.
      longest: the largest length at which the model fits, None where none does; no longer than its positions allow.
      instead: a dict of model (its name), title and dtype for each way to reach the length: the same model in a
        smaller dtype, then smaller models, the largest first, each in the largest dtype that fits. Empty on CUDA, whose
        memory is not the machine's, and where nothing reaches the length.
    """
    room = FIT_SHARE * memory_bytes

    def need(one: Model, in_dtype: str, length: int) -> float:
        axes = {"device": device, "dtype": in_dtype, "n_prompt": n_prompt, "kv_cache": kv_cache, "batch": batch}
        return cell_need({"model": one.name, "n_gen": length, **axes}, one)

    def reaches(one: Model, in_dtype: str) -> bool:
        holds = one.positions is None or n_prompt + n_gen <= one.positions
        return device != "cuda" and holds and need(one, in_dtype, n_gen) <= room

    smaller = sorted((one for one in others if one.parameters < model.parameters), key=lambda one: -one.parameters)
    dtypes = [one for one in ("float32", "float16") if BYTES_PER_VALUE[one] <= BYTES_PER_VALUE[dtype]]
    own = [(model, one) for one in dtypes if BYTES_PER_VALUE[one] < BYTES_PER_VALUE[dtype]]
    instead: dict[str, dict[str, str]] = {}
    for one, in_dtype in [*own, *((one, in_dtype) for one in smaller for in_dtype in dtypes)]:
        if reaches(one, in_dtype):
            instead.setdefault(one.name, {"model": one.name, "title": one.title, "dtype": in_dtype})
    limit = n_gen if model.positions is None else min(n_gen, model.positions - n_prompt)
    fitting = [length for length in range(1, limit + 1) if need(model, dtype, length) <= room]
    return {
        "need_bytes": need(model, dtype, n_gen),
        "room_bytes": room,
        "longest": max(fitting, default=None),
        "instead": list(instead.values()),
    }


def in_words(seconds: float) -> str:
    """``40 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
