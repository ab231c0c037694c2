"""One call of the pipeline: the study, the machine and stack that measure it, and where everything goes."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speedbump.grid.devices import DevicesError, Found, devices_file, recall_devices
from speedbump.grid.environments import Definition, list_environments, probe_again
from speedbump.grid.expansion import Grid, expand_study
from speedbump.grid.machine import find_machine, possible_devices
from speedbump.grid.models import Model, ModelError, load_models
from speedbump.grid.room import Room, memory_of
from speedbump.grid.stack import StackError, find_stack
from speedbump.grid.study import Call, Study, StudyError, read_call, read_study
from speedbump.plan.location import with_found_files
from speedbump.plan.refinement_plan import check_plans
from speedbump.plan.regime_anchor import Centre, place_around
from speedbump.plan.upgrade_check import Check, choose_check, keep_check

MISTAKES = (StudyError, ModelError, StackError, DevicesError)
"""What a user can mend: told in one line, without a traceback."""


@dataclass(frozen=True)
class Folders:
    """Where a study's files are on one machine, relative to the working directory."""

    machine: str
    study: str

    @property
    def runs(self) -> str:
        """Run files of all studies, a folder for each stack."""
        return f"results/runs/{self.machine}"

    @property
    def whole(self) -> str:
        """The study's tables, page and plans."""
        return f"results/studies/{self.study}"

    @property
    def plans(self) -> str:
        """Plans of refinement, a folder for each stack."""
        return f"{self.whole}/plans/{self.machine}"


@dataclass(frozen=True)
class Project:
    """What one call is about. ``file``: the study's.  grid: what this machine and Python can measure.

    room: the machine's memory, and which cells may be started beyond it.
    listed: environments of the stacks that the study lists, which measure in place of ``stack``.
    check: the cells of an upgrade's check, where the call is one.
    pending: text by file of what was found out and must be on disk before the first job: the devices that compute,
    records of environments whose devices compute by now, a check's plans.  A dry run leaves it unwritten.
    """

    file: str
    call: Call
    study: Study
    centre: Centre | None
    models: Mapping[str, Model]
    machine: str
    stack: str
    room: Room
    listed: list[Definition]
    grid: Grid
    check: Check | None = None
    pending: dict[Path, str] = field(default_factory=dict)

    @property
    def folders(self) -> Folders:
        return Folders(self.machine, self.study.study)

    @property
    def out(self) -> str:
        """Folder of the tables and the page that this call makes."""
        kind = "/partial" if self.call.partial else "/check" if self.check else ""
        return f"{self.folders.whole}{kind}"

    @property
    def devices(self) -> str:
        """File that remembers which devices compute."""
        return str(devices_file(self.machine, self.stack))

    @property
    def records(self) -> list[str]:
        """What came of each listed environment; in a partial report of those that were tried."""
        return [str(one.record) for one in self.listed if not self.call.partial or one.record.exists()]

    @property
    def environment_outputs(self) -> list[str]:
        """Records and folders of the environments to make."""
        if self.call.partial:
            return []
        return [str(path) for one in self.listed for path in (one.record, one.folder)]

    @property
    def worklist(self) -> str:
        """File from which each cell reads how many there are, and what is left."""
        return f"{self.out}/lists/work.json"


def check_results(folder: Path) -> None:
    """Whether results can be kept there, said before any work. Raises StudyError."""
    if folder.exists() and not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise StudyError(f"{folder}: not a folder that can be written to; results are kept there: move it away")


def open_project(
    config: Mapping[str, Any],
    configfiles: Sequence[str | os.PathLike[str]],
    reserved: Iterable[str],
    probe: Callable[..., Found],
    say: Callable[[str], None],
    is_main: bool = True,
) -> Project:
    """What Snakemake was called for, checked. Nothing is written.

    config: what Snakemake loaded from ``configfiles`` and its command line.  reserved: names no experiment may have.
    probe: asks a Python, this one or the one named, which devices compute.  is_main: False in the process of a single
    job, which leaves out what the main process has checked.
    Raises one of MISTAKES.
    """
    file = os.path.relpath(configfiles[-1])
    if len(configfiles) > 1:
        raise StudyError("--configfile: two studies at once would be merged into one; give one")
    call = read_call(config)
    if call.check and call.partial:
        raise StudyError("--config: check and partial make two different reports; give one")
    machine, stack = call.machine or find_machine(), call.stack or find_stack()
    if is_main:
        check_results(Path("results"))
    study, centre = place_around(with_found_files(read_study(config, file, reserved)), file, machine, stack)
    models = load_models(Path(study.models))
    listed = list_environments(study, file, machine)
    pending: dict[Path, str] = {}
    measures_here = not (call.machine or call.stack)

    def find_devices() -> dict[str, bool]:
        """Which compute here; for stacks that are not made yet, which may."""
        ask = probe if measures_here else None
        own = recall_devices(devices_file(machine, stack), ask, say, pending.__setitem__)
        there = possible_devices()
        return {device: own.get(device, False) or (bool(listed) and there[device]) for device in there}

    folders = Folders(machine, study.study)
    room = Room(memory_of(machine), Path(folders.runs), study.limits.beyond_memory)
    grid = expand_study(study, file, models, find_devices, room)
    plans = Path(folders.plans)
    if is_main:
        check_plans(plans, grid.cells)
    check = None
    if call.check:
        check = choose_check(study, grid.cells, Path(folders.whole), Path(folders.runs), plans, stack)
        keep_check(check, plans, machine, stack, grid.cells, pending.__setitem__)
    if is_main and measures_here and not call.partial:
        probe_again(listed, probe, say, pending.__setitem__)
    return Project(file, call, study, centre, models, machine, stack, room, listed, grid, check, pending)
