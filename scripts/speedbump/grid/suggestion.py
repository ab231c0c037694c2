"""The next study worth running, and its hours on this machine."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from speedbump.grid.devices import known_devices
from speedbump.grid.estimate import estimate_s, measured_scale
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models
from speedbump.grid.study import StudyError, read_study


def suggest_next(file: str | None, records: Iterable[Mapping[str, Any]], devices: Path) -> dict[str, Any]:
    """``next_command`` and ``next_hours`` of the study in ``file``; both None when there is nothing to suggest.

    records: metadata of runs made here, which scale the estimate.  devices: the probe's answer.
    """
    nothing = {"next_command": None, "next_hours": None}
    if file is None or not Path(file).exists():
        return nothing
    study = read_study(yaml.safe_load(Path(file).read_text()), file)
    models = load_models(Path(study.models))
    try:
        grid = expand_study(study, file, models, lambda: known_devices(devices))
    except StudyError:
        return nothing
    scale = measured_scale(records, models)
    seconds = sum(estimate_s(cell, models[cell["model"]], scale) for cells in grid.cells.values() for cell in cells)
    return {"next_command": f"snakemake --cores 1 --configfile {file}", "next_hours": round(seconds / 3600, 2)}
