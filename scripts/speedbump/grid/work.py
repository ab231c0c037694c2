"""What is left to measure: said to the reader before work starts, and to each cell while it goes on."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from speedbump.grid.cells import Cell, cell_id, complete
from speedbump.grid.estimate import SLOW_FACTOR, estimate_s, in_words, measured_scale, read_records
from speedbump.grid.models import Model, memory_need
from speedbump.grid.study import Study


def write_work(file: Path, runs: Mapping[str, str], models: Mapping[str, Model]) -> None:
    """List every known cell's run file and estimated seconds, for the progress line of measure_cell.

    runs: canonical JSON of the cell by its run file. Written only while something is left to measure.
    """
    done = [Path(path) for path in runs if Path(path).exists()]
    if len(done) == len(runs):
        return
    scale = measured_scale(read_records(done), models)
    work = [
        {"file": path, "cell": cell, "estimate_s": round(estimate_s(cell, models[cell["model"]], scale), 1)}
        for path, cell in ((path, json.loads(text)) for path, text in runs.items())
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(work))


def describe_work(grid: Mapping[str, list[Cell]], folders: Iterable[str], models: Mapping[str, Model]) -> list[str]:
    """A line an experiment: at least how many cells, how many done, the time left; then warnings on memory.

    folders: of the stacks that measure every cell.  Refinement may add cells, so counts are lower bounds.
    """
    folders = list(folders)
    work = {
        name: [(Path(f, f"{cell_id(c)}.parquet"), c) for f in folders for c in cells] for name, cells in grid.items()
    }
    done = {file for runs in work.values() for file, _ in runs if file.exists()}
    left = {name: {file: cell for file, cell in runs if file not in done} for name, runs in work.items()}
    scale = measured_scale(read_records(done), models) if any(left.values()) else {}
    lines = []
    for name, runs in work.items():
        if runs:
            count = f"{name}: {len(runs)} cell{'s' * (len(runs) != 1)}, {len(runs) - len(left[name])} done"
            lines.append(f"{count}{_time_left(list(left[name].values()), models, scale)}")
    waiting = [cell for cells in left.values() for cell in cells.values()]
    return lines + memory_warnings(waiting, models, psutil.virtual_memory().total)


def _time_left(cells: list[Cell], models: Mapping[str, Model], scale: Mapping[str, float]) -> str:
    if not cells:
        return ""
    seconds = [estimate_s(cell, models[cell["model"]], scale) for cell in cells]
    basis = "from cells measured here" if all(cell["device"] in scale for cell in cells) else "a guess"
    text = f", about {in_words(sum(seconds))} left ({basis})"
    on_mps = sum(s for s, cell in zip(seconds, cells, strict=True) if cell["device"] == "mps")
    if on_mps:
        text += f", {in_words(sum(seconds) + (SLOW_FACTOR - 1) * on_mps)} if all were {SLOW_FACTOR}x slow"
    return text


def describe_study(
    study: Study, models: Mapping[str, Model], machine: str, stacks: Iterable[str], partial: bool
) -> str:
    """What the report says of the study, as canonical JSON; machine and stacks are those that measure."""
    return json.dumps(
        {
            "name": study.study,
            "title": study.title,
            "description": study.description,
            "protocol": study.protocol.model_dump(),
            "compare_with_paper": study.compare_with_paper,
            "workload": study.workload is not None,
            "suggests": study.suggests,
            "machine": machine,
            "stacks": list(stacks),
            "partial": partial,
            "model_titles": {name: model.title for name, model in sorted(models.items())},
        },
        sort_keys=True,
    )


def memory_warnings(cells: Iterable[Cell], models: Mapping[str, Model], have_bytes: float) -> list[str]:
    """A line for each model and device with cells that may need more memory than the machine has."""
    over: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for cell in cells:
        whole = complete(cell)
        n_gen = max(cell.get("sequence") or [whole["n_gen"]])
        need = memory_need(
            models[whole["model"]],
            dtype=whole["dtype"],
            device=whole["device"],
            n_prompt=whole["n_prompt"],
            n_gen=n_gen,
            kv_cache=whole["kv_cache"],
            batch=whole["batch"],
        )
        if whole["device"] != "cuda" and need > have_bytes:
            over.setdefault((whole["model"], whole["device"]), []).append((need, n_gen))
    have_gib = have_bytes / 2**30
    return [
        f"{model} on {device}: {len(needs)} cell{'s' * (len(needs) != 1)}, from {min(n for _, n in needs)} tokens up, "
        f"may need as much as {max(needs)[0] / 2**30:.0f} GiB of this machine's {have_gib:.0f}; "
        "the memory guard stops them"
        for (model, device), needs in over.items()
    ]
