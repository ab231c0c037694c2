"""What is left to measure: said to the reader before work starts, and to each cell while it goes on."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from speedbump.grid.cells import Cell, canonical, complete
from speedbump.grid.estimate import (
    SLOW_FACTOR,
    cell_need,
    estimate_s,
    in_words,
    measured_scale,
    read_records,
    what_fits,
)
from speedbump.grid.models import Model
from speedbump.grid.room import longest
from speedbump.grid.study import Study
from speedbump.plan.regime_anchor import Centre

SAMPLE = 200
"""Runs of a device from which its speed is known well enough: their median ratio to the guess."""


@dataclass(frozen=True)
class Survey:
    """What is measured. done: run files that exist.  scale: as ``measured_scale``; empty when nothing is left."""

    done: frozenset[str]
    scale: Mapping[str, float]


def survey_runs(files: Iterable[str], models: Mapping[str, Model]) -> Survey:
    """Which of the run files exist, and how fast the machine was in a sample of them."""
    wanted = list(files)
    done = existing(wanted)
    scale = measured_scale(read_records(map(Path, _sample(done))), models) if len(done) < len(set(wanted)) else {}
    return Survey(frozenset(done), scale)


def existing(files: Iterable[str]) -> set[str]:
    """Those of the files that exist, by one look into each folder: a shared folder answers slowly."""
    by_folder: dict[str, set[str]] = {}
    for file in files:
        folder, _, name = file.rpartition("/")
        by_folder.setdefault(folder, set()).add(name)
    found = set()
    for folder, names in by_folder.items():
        if Path(folder).is_dir():
            found |= {f"{folder}/{entry.name}" for entry in os.scandir(folder) if entry.name in names}
    return found


def _sample(files: Iterable[str]) -> list[str]:
    """At most SAMPLE files of each device, whichever have the smallest hashes."""
    parts = sorted((file.split(".")[-2], file.split(".")[-4], file) for file in files)
    by_device: dict[str, list[str]] = {}
    for _, device, file in parts:
        by_device.setdefault(device, []).append(file)
    return [file for of_device in by_device.values() for file in of_device[:SAMPLE]]


def write_work(file: Path, cells: Mapping[str, str], survey: Survey, models: Mapping[str, Model]) -> None:
    """List every known cell's run file and estimated seconds, for the progress line of measure_cell.

    cells: canonical JSON by run file. Written only while something is left to measure.
    """
    if survey.done.issuperset(cells):
        return
    work = [
        {
            "file": run,
            "cell": cell,
            "estimate_s": round(estimate_s(cell, models[cell["model"]], survey.scale), 1),
        }
        for run, cell in ((run, json.loads(text)) for run, text in cells.items())
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(work))


def describe_work(
    grid: Mapping[str, list[Cell]],
    files: Mapping[str, list[str]],
    survey: Survey,
    models: Mapping[str, Model],
    memory_bytes: float = math.inf,
) -> list[str]:
    """A line an experiment: at least how many cells, how many done, the time left; then warnings on memory.

    files: the run files of each experiment's cells, in their order. Refinement may add cells, so counts are lower
    bounds. memory_bytes: the machine's.
    """
    left = {
        name: [cell for cell, file in zip(cells, files[name], strict=True) if file not in survey.done]
        for name, cells in grid.items()
    }
    lines = []
    for name, cells in grid.items():
        if cells:
            count = f"{name}: {len(cells)} cell{'s' * (len(cells) != 1)}, {len(cells) - len(left[name])} done"
            lines.append(f"{count}{_time_left(left[name], models, survey.scale)}")
    waiting = [cell for cells in left.values() for cell in cells]
    return lines + memory_warnings(waiting, models, memory_bytes)


def _time_left(cells: list[Cell], models: Mapping[str, Model], scale: Mapping[str, float]) -> str:
    if not cells:
        return ""
    seconds = {canonical(cell): estimate_s(cell, models[cell["model"]], scale) for cell in cells}
    basis = "from cells measured here" if all(cell["device"] in scale for cell in cells) else "a guess"
    text = f", about {in_words(sum(seconds.values()))} left ({basis})"
    on_mps = sum(seconds[canonical(cell)] for cell in cells if cell["device"] == "mps")
    if on_mps:
        text += f", {in_words(sum(seconds.values()) + (SLOW_FACTOR - 1) * on_mps)} if all were {SLOW_FACTOR}x slow"
    return text


def describe_study(
    study: Study,
    models: Mapping[str, Model],
    machine: str,
    stacks: Iterable[str],
    partial: bool,
    centre: Centre | None = None,
    notes: Iterable[str] = (),
    file: str | None = None,
    fits: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """What the report says of the study, as canonical JSON; machine and stacks are those that measure.

    centre: the regime that the study is around.  notes: what the report says of cells that do not fit the memory.
    file: the study's own, for the lines that run it.  fits: as find_fitting gives it.
    """
    around = {"around": asdict(centre)} if centre else {}
    return json.dumps(
        {
            **around,
            "name": study.study,
            "file": file,
            "title": study.title,
            "description": study.description,
            "protocol": study.protocol.model_dump(),
            "compare_with_paper": study.compare_with_paper,
            "workload": study.workload is not None,
            "suggests": study.suggests,
            "machine": machine,
            "stacks": list(stacks),
            "listed": bool(study.stacks),
            "partial": partial,
            "notes": list(notes),
            "fits": dict(fits or {}),
            "model_titles": {name: model.title for name, model in sorted(models.items())},
        },
        sort_keys=True,
    )


def find_fitting(cells: Iterable[Cell], models: Mapping[str, Model], memory_bytes: float) -> dict[str, dict[str, Any]]:
    """What would fit the memory, as estimate.what_fits says, by "model device dtype" of cells that may not."""
    largest: dict[str, Cell] = {}
    for cell in map(complete, cells):
        key = f"{cell['model']} {cell['device']} {cell['dtype']}"
        largest[key] = max(largest.get(key, cell), cell, key=lambda one: cell_need(one, models[one["model"]]))
    found = {}
    for key, cell in largest.items():
        axes = {name: cell[name] for name in ("dtype", "n_prompt", "kv_cache", "batch")}
        model = models[cell["model"]]
        fitting = what_fits(model, cell["device"], memory_bytes, longest(cell), models.values(), **axes)
        if cell["device"] != "cuda" and fitting["need_bytes"] > fitting["room_bytes"]:
            found[key] = {name: fitting[name] for name in ("longest", "instead")}
    return found


def memory_warnings(cells: Iterable[Cell], models: Mapping[str, Model], have_bytes: float) -> list[str]:
    """A line for each model and device with cells that may need more memory than the machine has."""
    over: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for cell in cells:
        need = cell_need(cell, models[cell["model"]])
        if need > have_bytes:
            over.setdefault((cell["model"], cell["device"]), []).append((need, longest(cell)))
    have_gib = have_bytes / 2**30
    return [
        f"{model} on {device}: {len(needs)} cell{'s' * (len(needs) != 1)}, from {min(n for _, n in needs)} tokens up, "
        f"may need as much as {max(needs)[0] / 2**30:.0f} GiB of this machine's {have_gib:.0f}; "
        "the memory guard stops them"
        for (model, device), needs in over.items()
    ]
