"""Where files are: studies and results in the working directory, the pipeline's own files beside its code."""

import os
from pathlib import Path

from speedbump.grid.listing import visible
from speedbump.grid.study import Study


def code_folder() -> Path:
    """The folder of the Snakefile, relative to the working directory; ``.`` where the two are one."""
    return Path(os.path.relpath(Path(__file__).parents[3].resolve()))


def find_file(name: str) -> str:
    """The file or folder in the working directory, else the code's; as it is named where neither has one."""
    own = code_folder() / name
    return str(own) if own.exists() and not Path(name).exists() else name


def with_found_files(study: Study) -> Study:
    """The study with the place of every file that it names."""
    experiments = [
        experiment.model_copy(update={"workload": _find(experiment.workload)}) for experiment in study.experiments
    ]
    found = {"models": find_file(study.models), "workload": _find(study.workload), "experiments": experiments}
    return study.model_copy(update={**found, "bundles": list(map(find_file, study.bundles))})


def _find(name: str | None) -> str | None:
    return None if name is None else find_file(name)


def library(*rooms: str) -> list[str]:
    """The modules that a script of these rooms is made of: editing one reruns what follows from it."""
    package = code_folder() / "scripts" / "speedbump"
    modules = (file for room in ("grid", "plan", *rooms) for file in visible(package / room, "**/*.py"))
    return sorted(map(str, (package / "tables.py", *modules)))
