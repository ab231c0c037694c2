"""Refinement as the grid sees it: its settings, and the cells that a plan adds to an experiment."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from speedbump.grid.cells import Cell, cell_id, complete, series_id
from speedbump.grid.listing import visible
from speedbump.grid.study import Study, StudyError

PLANNED = ("n_gen", "process", "warmups", "repeats", "probe")
"""What a plan says of a cell; the rest is its series'."""


def read_plan(file: Path, scan: Iterable[Cell], machine: str, stack: str) -> list[Cell]:
    """The cells of a plan file, each made from the scan's cell of the same series.

    A series that the scan no longer has (the study was edited) adds nothing. Raises StudyError.
    """
    by_series: Mapping[str, Cell] = {series_id(cell, machine, stack): complete(cell) for cell in scan}
    return [
        {**by_series[entry["series"]], **{key: entry[key] for key in PLANNED if entry.get(key) is not None}}
        for entry in _entries(file)
        if entry["series"] in by_series
    ]


def read_start(file: Path) -> set[str] | None:
    """Ids of the cells of an upgrade's check that the first round was planned with; None before it is planned."""
    try:
        return set(json.loads(file.read_text()).get("checked", ()))
    except (OSError, ValueError, AttributeError, TypeError):
        return None


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        entries = json.loads(file.read_text())["cells"]
        if all("series" in entry for entry in entries):
            return list(entries)
    except (OSError, ValueError, LookupError, TypeError):
        pass
    raise StudyError(f"{file}: is no plan; delete it, and it is made again")


def check_plans(plans: Path, experiments: Iterable[str]) -> None:
    """Read every stack's plans of the experiments. Raises StudyError for one that is none, before any work: other
    stacks' are otherwise read only when their runs are joined.
    """
    for experiment in experiments:
        for file in visible(plans, f"*/{experiment}/*.json"):
            _entries(file)


def planned_cells(scan: Iterable[Cell], plans: Path, machine: str, stack: str, experiment: str) -> list[Cell]:
    """The scan's cells, and those that a stack's plans added to them; none twice. ``plans``: ``plans/<machine>``."""
    cells = list(scan)
    for plan in visible(plans / stack / experiment, "*.json"):
        cells += read_plan(plan, scan, machine, stack)
    return list({cell_id(cell): cell for cell in cells}.values())


def runs_of_other_stacks(
    grid: Mapping[str, list[Cell]], runs: Path, plans: Path, measured: Iterable[str], only: str | None = None
) -> list[str]:
    """Run files that exist of the same cells, and of cells planned in their turn, under this machine's other stacks.

    grid: the scan's cells by experiment.  runs: ``runs/<machine>``.  plans: ``plans/<machine>``, which has a folder for
    each stack that was refined.  measured: the stacks that are not others.  only: the one other that counts.
    """
    files: dict[str, None] = {}
    for folder in visible(runs, "*/"):
        if folder.name in measured or only not in (None, folder.name):
            continue
        for experiment, scan in grid.items():
            cells = planned_cells(scan, plans, runs.name, folder.name, experiment)
            candidates = (folder / f"{cell_id(cell)}.parquet" for cell in cells)
            files |= dict.fromkeys(str(file) for file in candidates if file.exists())
    return list(files)


def fingerprint(files: Iterable[str]) -> str:
    """Changes when files come, go or are replaced."""
    digest = hashlib.sha256()
    for file in files:
        about = Path(file).stat()
        digest.update(f"{file} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def refine_settings(study: Study, experiment: str) -> str:
    """The experiment's ``Refinement`` as canonical JSON."""
    settings = next(block.refine for block in study.experiments if block.name == experiment)
    assert settings is not None, f"{experiment} is not refined"
    return json.dumps({**settings.model_dump(), "protocol": study.protocol.model_dump()}, sort_keys=True)
