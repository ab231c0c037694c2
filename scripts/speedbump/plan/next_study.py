"""The next study worth running, and its hours on this machine."""

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from speedbump.grid.cells import Cell, canonical, cell_id
from speedbump.grid.devices import known_devices
from speedbump.grid.estimate import estimate_s, measured_scale
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import Model, ModelError, load_models
from speedbump.grid.room import Room, memory_of
from speedbump.grid.study import StudyError, read_study
from speedbump.plan.location import code_folder, find_file, with_found_files
from speedbump.plan.regime_anchor import place_around

DEFAULT = "config/config.yaml"


def choice_of(configfile: str) -> list[str]:
    """Words that choose a study on Snakemake's command line; none for the default."""
    return [] if configfile in (DEFAULT, find_file(DEFAULT)) else ["--configfile", configfile]


def run_command(configfile: str, *options: str) -> str:
    """The line that runs a study from the working directory."""
    code = code_folder()
    snakefile = [] if code == Path() else ["-s", str(code / "Snakefile")]
    return shlex.join(["snakemake", *snakefile, "--cores", "1", *choice_of(configfile), *options])


def published_command(configfile: str) -> str:
    """The line that runs a study beside the code: reports say no other, since it would name a folder of their user."""
    return shlex.join(["snakemake", "--cores", "1", *choice_of(configfile)])


def partial_report(configfile: str) -> str:
    """The line that reports what is measured so far."""
    return run_command(configfile, "--config", "partial=true")


def suggest_next(file: str | None, records: Iterable[Mapping[str, Any]], devices: Path) -> dict[str, Any]:
    """``next_command`` and ``next_hours`` of what is left of the study in ``file``; both None when there is nothing
    to suggest.

    records: metadata of runs made here, which scale the estimate.
    devices: the probe's answer, ``<machine>/<stack>.json``.
    """
    nothing = {"next_command": None, "next_hours": None}
    if file is None:
        return nothing
    try:
        cells, models = _cells_of(file, devices)
    except (StudyError, ModelError, OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        print(f"no next study is suggested: {' '.join(str(error).split())}", file=sys.stderr)
        return nothing
    records = list(records)
    done = {record["cell_id"] for record in records}
    scale = measured_scale(records, models)
    waiting = {canonical(cell): cell for cell in cells if cell_id(cell) not in done}
    left = [estimate_s(cell, models[cell["model"]], scale) for cell in waiting.values()]
    if not left:
        return nothing
    return {"next_command": published_command(file), "next_hours": round(sum(left) / 3600, 2)}


def _cells_of(file: str, devices: Path) -> tuple[list[Cell], Mapping[str, Model]]:
    content = yaml.safe_load(Path(find_file(file)).read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise StudyError(f"{file}: is not a study")
    study, _ = place_around(with_found_files(read_study(content, file)), file, devices.parent.name, devices.stem)
    models = load_models(Path(study.models))
    machine = devices.parent.name
    room = Room(memory_of(machine), Path("results", "runs", machine), study.limits.beyond_memory)
    grid = expand_study(study, file, models, lambda: known_devices(devices), room)
    return [cell for cells in grid.cells.values() for cell in cells], models
