"""What is left to measure: said to the reader before work starts, and to each cell while it goes on."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import psutil

from speedbump.grid.around import Centre
from speedbump.grid.cells import Cell, canonical, cell_id, complete
from speedbump.grid.estimate import SLOW_FACTOR, estimate_s, in_words, measured_scale, read_records
from speedbump.grid.models import Model, memory_need
from speedbump.grid.study import Study


def write_work(file: Path, runs: str, cells: Mapping[str, str], models: Mapping[str, Model]) -> None:
    """List every known cell's run file and estimated seconds, for the progress line of measure_cell.

    cells: canonical JSON by cell id. Written only while something is left to measure.
    """
    paths = {name: Path(runs, f"{name}.parquet") for name in cells}
    done = [path for path in paths.values() if path.exists()]
    if len(done) == len(paths):
        return
    scale = measured_scale(read_records(done), models)
    work = [
        {"file": str(paths[name]), "cell": cell, "estimate_s": round(estimate_s(cell, models[cell["model"]], scale), 1)}
        for name, cell in ((name, json.loads(text)) for name, text in cells.items())
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(work))


def describe_work(grid: Mapping[str, list[Cell]], runs: str, models: Mapping[str, Model]) -> list[str]:
    """A line an experiment: at least how many cells, how many done, the time left; then warnings on memory.

    Refinement may add cells, so counts are lower bounds.
    """
    files = {name: [Path(runs, f"{cell_id(cell)}.parquet") for cell in cells] for name, cells in grid.items()}
    done = {file for paths in files.values() for file in paths if file.exists()}
    left = {name: [c for c, f in zip(grid[name], files[name], strict=True) if f not in done] for name in grid}
    scale = measured_scale(read_records(done), models) if any(left.values()) else {}
    lines = []
    for name, cells in grid.items():
        if cells:
            count = f"{name}: {len(cells)} cell{'s' * (len(cells) != 1)}, {len(cells) - len(left[name])} done"
            lines.append(f"{count}{_time_left(left[name], models, scale)}")
    waiting = [cell for cells in left.values() for cell in cells]
    return lines + memory_warnings(waiting, models, psutil.virtual_memory().total)


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
    study: Study, models: Mapping[str, Model], machine: str, stack: str, partial: bool, centre: Centre | None = None
) -> str:
    """What the report says of the study, as canonical JSON; machine and stack are those that measure.

    centre: the regime that the study is around.
    """
    around = {"around": asdict(centre)} if centre else {}
    return json.dumps(
        {
            **around,
            "name": study.study,
            "title": study.title,
            "description": study.description,
            "protocol": study.protocol.model_dump(),
            "compare_with_paper": study.compare_with_paper,
            "workload": study.workload is not None,
            "suggests": study.suggests,
            "machine": machine,
            "stack": stack,
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
        need = need * (2 if whole["predecessor"] == "running" else 1) + whole["ballast_gb"] * 2**30
        if whole["device"] != "cuda" and need > have_bytes:
            over.setdefault((whole["model"], whole["device"]), []).append((need, n_gen))
    have_gib = have_bytes / 2**30
    return [
        f"{model} on {device}: {len(needs)} cell{'s' * (len(needs) != 1)}, from {min(n for _, n in needs)} tokens up, "
        f"may need as much as {max(needs)[0] / 2**30:.0f} GiB of this machine's {have_gib:.0f}; "
        "the memory guard stops them"
        for (model, device), needs in over.items()
    ]
