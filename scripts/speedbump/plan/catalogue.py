"""The catalogue: which cells and run files every experiment has on every stack, and which of them are missing."""

import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speedbump.grid.cells import Cell, canonical, cell_id, takes_all
from speedbump.grid.environments import Definition, Made, read_made, usable
from speedbump.grid.expansion import expand_study
from speedbump.grid.room import SINCE, leave_out, turn_in
from speedbump.grid.stack import left_out_in_words
from speedbump.grid.study import StudyError, namesakes
from speedbump.plan.project import Project
from speedbump.plan.refinement_plan import read_plan, read_start, runs_of_other_stacks
from speedbump.plan.regime_anchor import around_in_words
from speedbump.plan.upgrade_check import ROUND as CHECK_ROUND
from speedbump.plan.upgrade_check import describe_check
from speedbump.plan.worklist import describe_study, describe_work, existing, find_fitting, survey_runs, write_work

EVERY_DEVICE = 1_000_000
"""More devices than a machine has; Snakemake cuts it to its limit."""


class UnknownError(LookupError):
    """Something was asked for that the study does not have; one line."""


@dataclass(frozen=True)
class Snakemake:
    """What only Snakemake knows.

    await_environment: by a listed environment's name, and await_plan: by stack, experiment and round, return once that
    checkpoint has run; before, they raise what Snakemake takes up again later.
    targets: what was asked for; empty for the default.  is_dry: whether nothing may be written.  is_forced: whether
    something is made again although it is there.
    """

    await_environment: Callable[[str], object]
    await_plan: Callable[[str, str, int], object]
    targets: Callable[[], Collection[str]]
    is_dry: Callable[[], bool]
    is_forced: Callable[[], bool]


@dataclass(frozen=True)
class StackRuns:
    """What is known of one stack before refinement, by experiment.

    cells: the scan's.  start: run files that refinement starts from.  joined: run files that exist of what an upgrade's
    check asked for, which count whatever refinement does.
    """

    cells: dict[str, list[Cell]]
    start: dict[str, list[str]]
    joined: dict[str, list[str]]


class Catalogue:
    """The cells and run files of a project, as far as they are known.

    At the start these are the scan's, and those of plans on disk, since a job that starts anew must know the cells
    that plans revealed. Further ones become known while Snakemake runs: of a listed stack once its environment is
    made, of refinement once its next round is planned.
    """

    def __init__(self, project: Project, snakemake: Snakemake, say: Callable[[str], None]) -> None:
        """``say``: tells the user a line. Raises StudyError for a plan on disk that is none."""
        self._project = project
        self._snakemake = snakemake
        self._say = say
        self._rounds = {
            experiment.name: experiment.refine.rounds if experiment.refine else 0
            for experiment in project.study.experiments
        }
        self._stacks: dict[str, StackRuns] = {}
        self._cells: dict[str, str] = {}
        self._files: dict[str, dict[str, str]] = {}
        self._other_stacks: dict[tuple[str, ...], list[str]] = {}
        if project.listed:
            self._add_made_stacks()
        elif project.check:
            self._add_checked_stack(project.check.cells)
        else:
            self._add_stack(project.stack, project.grid.cells)

    # What rules ask of a cell, by its id.

    def parameters(self, cell: str) -> str:
        """Canonical JSON of a cell. Raises UnknownError."""
        if cell not in self._cells:
            raise UnknownError(f"{cell}: no cell of {self._project.file}, or planned for another stack")
        return self._cells[cell]

    def priority(self, cell: str) -> int:
        """Priority of its job."""
        project = self._project
        return turn_in(json.loads(self.parameters(cell)), project.study, project.models, project.room)

    def devices_taken(self, cell: str) -> int:
        """How many of the machine's devices it keeps busy: one, or all."""
        return EVERY_DEVICE if takes_all(json.loads(self.parameters(cell))) else 1

    def gpus_taken(self, cell: str) -> int:
        """How many GPUs an executor must ask a cluster for; the device stands in the id."""
        return int(cell.split(".")[-3] == "cuda")

    # What rules ask of environments and stacks.

    def definition(self, environment: str) -> str:
        """Canonical JSON of what a listed environment is made of. Raises UnknownError."""
        for definition in self._project.listed:
            if definition.name == environment:
                return definition.as_json()
        raise UnknownError(f"{environment}: {self._project.file} lists no such stack")

    def environment(self, stack: str) -> list[str]:
        """Record of the environment that measures a stack; none for this Python's own. Raises UnknownError."""
        if not self._project.listed:
            return []
        for definition, made in self._usable():
            if made.stack == stack:
                return [str(definition.record)]
        raise UnknownError(f"{stack}: {self._project.file} lists no stack that turned out to be this one")

    @property
    def stack_pattern(self) -> str:
        """Regular expression of the stacks that are measured: this Python's own, or the listed ones."""
        listed = "|".join(definition.stack_pattern for definition in self._project.listed)
        return listed or re.escape(self._project.stack)

    def any_cell_on(self, device: str) -> bool:
        """Whether any cell of the scan is for this device."""
        return any(cell["device"] == device for cells in self._project.grid.cells.values() for cell in cells)

    def measured_stacks(self) -> list[str]:
        """Slugs of the stacks to measure: this Python's own, or those that the study lists, once they are made."""
        if self._project.listed and not self._project.call.partial:
            for definition in self._project.listed:
                self._snakemake.await_environment(definition.name)
            known = len(self._stacks)
            self._add_made_stacks()
            if len(self._stacks) > known:
                self.write_worklist()
        return list(self._stacks)

    # Run files.

    def runs(self, experiment: str) -> list[str]:
        """Run files of an experiment on every stack that is measured, after its last round of refinement."""
        rounds = 0 if self._project.check else self._rounds[experiment]
        files: dict[str, None] = {}
        for stack in self.measured_stacks():
            joined = self._stacks[stack].joined[experiment]
            files |= dict.fromkeys([*self.runs_after(experiment, stack, rounds), *joined])
        return list(files)

    def runs_after(self, experiment: str, stack: str, rounds: int) -> list[str]:
        """Run files of an experiment on one stack after so many rounds of refinement; an empty plan ends it."""
        files = list(self._stacks[stack].start[experiment])
        for number in range(1, 1 + (rounds if files else 0)):
            if not self._project.call.partial:
                self._snakemake.await_plan(stack, experiment, number)
            elif not Path(self.plan(experiment, stack, number)).exists():
                break
            known = len(self._cells)
            new = self._add_plan(experiment, stack, number)
            if not new:
                break
            if len(self._cells) > known:
                self.write_worklist()
            files += new
        return files

    def all_runs(self) -> list[str]:
        """Run files of all experiments, none twice; of a partial report those that exist."""
        files = dict.fromkeys(file for name in self._project.grid.cells for file in self.runs(name))
        if not self._project.call.partial:
            return list(files)
        return [file for file in files if Path(file).exists()]

    def missing_runs(self) -> list[str]:
        """Runs that are still missing, and on the way the plans that are still to be made. A target must ask for them,
        or a stack that is new beside finished tables is not measured: Snakemake does not make what is missing between
        files that are there.
        """
        if self._project.call.partial:
            return []
        files = self.all_runs()
        done = existing(files)
        return [file for file in files if file not in done]

    def runs_of_other_stacks(self) -> list[str]:
        """Run files of this machine's stacks that are not measured now; no job changes them."""
        measured = tuple(self.measured_stacks())
        if measured not in self._other_stacks:
            project, folders = self._project, self._project.folders
            only = project.check.reference if project.check else None
            self._other_stacks[measured] = runs_of_other_stacks(
                project.grid.cells, Path(folders.runs), Path(folders.plans), measured, only
            )
        return self._other_stacks[measured]

    # Plans of refinement.

    def plan(self, experiment: str, stack: str, number: int) -> str:
        """File of a round's plan."""
        return f"{self._project.folders.plans}/{stack}/{experiment}/{number}.json"

    def earlier_plans(self, experiment: str, stack: str, number: int) -> list[str]:
        """Files of the plans before a round's."""
        return [self.plan(experiment, stack, earlier) for earlier in range(1, number)]

    def start_of_plan(self, experiment: str, stack: str, number: int) -> list[str]:
        """Ids of the cells that refinement starts with beside the scan's; they stand in the first round's plan."""
        if number != 1:
            return []
        of_stack = self._stacks[stack]
        return [Path(file).stem for file in of_stack.start[experiment] if file in of_stack.joined[experiment]]

    # Files for jobs, and lines for the user.

    def _list_runs(self, name: str, listed: dict[str, Any]) -> str:
        """A file that lists runs for a script: there may be too many for a command line. Returns its name."""
        file = Path(f"{self._project.out}/lists/{name}.json")
        self._write(file, json.dumps(listed, indent=1))
        return str(file)

    def list_runs_to_collect(self) -> str:
        """The list for collect_requests: the runs of each experiment, and those of other stacks."""
        experiments = {name: self.runs(name) for name in self._project.grid.cells}
        return self._list_runs(
            "collect_requests", {"experiments": experiments, "other_stacks": self.runs_of_other_stacks()}
        )

    def list_runs_to_plan(self, experiment: str, stack: str, number: int, runs: Iterable[str]) -> str:
        """The list for plan_refinement: the runs so far."""
        return self._list_runs(
            f"plan_refinement.{stack}.{experiment}.{number}", {"experiments": {experiment: list(runs)}}
        )

    def start(self) -> None:
        """Jobs are about to run: write what they need. What is measured again is not left for what happened before."""
        if self._snakemake.is_forced():
            os.environ[SINCE] = str(time.time())
        for file, text in self._project.pending.items():
            self._write(file, text)
        self._project.pending.clear()
        self.write_worklist()

    def write_worklist(self) -> None:
        """For the progress lines: the cells of the experiments that are asked for."""
        if self._snakemake.is_dry():
            return
        asked = set(self._snakemake.targets())
        chosen = asked if asked and asked <= set(self._files) else self._files
        cells = {file: cell for name in chosen for file, cell in self._files[name].items()}
        known = survey_runs([file for files in self._files.values() for file in files], self._project.models)
        write_work(Path(self._project.worklist), cells, known, self._project.models)

    def describe_study(self) -> str:
        """What the report says of the study, as canonical JSON."""
        project = self._project
        stacks = self.measured_stacks()
        return describe_study(
            project.study,
            project.models,
            project.machine,
            stacks,
            project.call.partial,
            project.centre,
            project.grid.notes,
            project.file,
            find_fitting(
                (cell for cells in project.grid.cells.values() for cell in cells),
                project.models,
                project.room.memory_bytes,
            ),
        )

    def describe(self) -> list[str]:
        """What is to be said before work starts: what is left, how long it takes, what cannot be measured. Of a partial
        report, which starts none, nothing.
        """
        project = self._project
        if project.call.partial:
            return []
        same = namesakes(project.study.study, project.file)
        lines = left_out_in_words()
        lines += [
            f"{file} is study {project.study.study!r}, too, and replaces this one's report; rename one" for file in same
        ]
        lines += [*around_in_words(project.centre), *project.grid.notices]
        if project.check:
            return [*lines, *describe_check(project.check, Path(project.folders.runs), project.stack, project.models)]
        if not project.listed:
            return lines + self._describe_work([project.stack])
        made = {definition: self._read_made(definition.record) for definition in project.listed}
        lines += [f"{one.title} is left out: {one.failed}" for one in made.values() if one and one.failed]
        # A stack that is not made yet has no folder: its cells count as not done.
        stacks = [one.stack if one else definition.name for definition, one in made.items() if not (one and one.failed)]
        return lines + self._describe_work(stacks)

    def _describe_work(self, stacks: list[str]) -> list[str]:
        """A line an experiment on what is left on all stacks; one that is not made yet has all of the grid."""
        names = self._project.grid.cells
        cells = {
            stack: self._stacks[stack].cells if stack in self._stacks else self._project.grid.cells for stack in stacks
        }
        grid = {name: [cell for own in cells.values() for cell in own[name]] for name in names}
        files = {
            name: [self._run_file(cell_id(cell), stack) for stack, own in cells.items() for cell in own[name]]
            for name in names
        }
        known = survey_runs([file for own in files.values() for file in own], self._project.models)
        return describe_work(grid, files, known, self._project.models, self._project.room.memory_bytes)

    # How cells become known.

    def _add_stack(self, stack: str, cells: dict[str, list[Cell]]) -> None:
        """The stack's scan, what an upgrade's check has measured, and the cells of plans on disk. Refinement starts
        from what of the check was there when its first round was planned, or each check would undo it.
        """
        start = {name: self._add_runs(name, own, stack) for name, own in cells.items()}
        joined: dict[str, list[str]] = {}
        self._stacks[stack] = StackRuns(cells, start, joined)
        for name in cells:
            joined[name] = self._add_checked_runs(name, stack)
            begun = read_start(Path(self.plan(name, stack, 1)))
            start[name] += [file for file in joined[name] if begun is None or Path(file).stem in begun]
            for number in range(1, 1 + self._rounds[name]):
                if Path(self.plan(name, stack, number)).exists():
                    self._add_plan(name, stack, number)

    def _add_checked_stack(self, cells: dict[str, list[Cell]]) -> None:
        """The stack of an upgrade's check, of which only the deciding cells are measured."""
        stack = self._project.stack
        start = {name: self._add_runs(name, own, stack) for name, own in cells.items()}
        self._stacks[stack] = StackRuns(self._project.grid.cells, start, {name: [] for name in cells})

    def _add_made_stacks(self) -> None:
        """Stacks whose environments are made, each with the cells that its devices can measure."""
        for _, made in self._usable():
            if made.stack not in self._stacks:
                self._add_stack(made.stack, self._measurable_cells(made))

    def _measurable_cells(self, made: Made) -> dict[str, list[Cell]]:
        project = self._project
        try:
            grid = expand_study(project.study, project.file, project.models, lambda: made.computes, project.room)
        except StudyError as mistake:
            self._say(f"{made.title} measures nothing: {mistake}")
            return {name: [] for name in project.grid.cells}
        for notice in grid.notices:
            if notice not in project.grid.notices:
                self._say(f"{made.title}: {notice}")
        return grid.cells

    def _add_plan(self, experiment: str, stack: str, number: int) -> list[str]:
        """Run files of the cells that a plan on disk adds to an experiment."""
        return self._add_runs(experiment, self._planned_cells(experiment, stack, number), stack)

    def _add_checked_runs(self, experiment: str, stack: str) -> list[str]:
        """Run files that exist of what an upgrade's check asked for."""
        if not Path(self.plan(experiment, stack, CHECK_ROUND)).exists():
            return []
        planned = self._planned_cells(experiment, stack, CHECK_ROUND)
        cells = {self._run_file(cell_id(cell), stack): cell for cell in planned}
        done = existing(cells)
        return self._add_runs(experiment, [cell for file, cell in cells.items() if file in done], stack)

    def _planned_cells(self, experiment: str, stack: str, number: int) -> list[Cell]:
        project, plan = self._project, Path(self.plan(experiment, stack, number))
        cells = read_plan(plan, self._stacks[stack].cells[experiment], project.machine, stack)
        return leave_out(cells, project.room, project.models)[0]

    def _add_runs(self, experiment: str, cells: list[Cell], stack: str) -> list[str]:
        """The cells' run files. From now on the parameters of their jobs are known."""
        files = []
        known = self._files.setdefault(experiment, {})
        for cell in cells:
            name = cell_id(cell)
            file = self._run_file(name, stack)
            known[file] = self._cells[name] = canonical(cell)
            files.append(file)
        return files

    def _run_file(self, cell: str, stack: str) -> str:
        return f"{self._project.folders.runs}/{stack}/{cell}.parquet"

    def _usable(self) -> Iterable[tuple[Definition, Made]]:
        return usable(self._project.listed, self._read_made)

    def _read_made(self, record: Path) -> Made | None:
        pending = self._project.pending.get(record)
        return Made.model_validate_json(pending) if pending else read_made(record)

    def _write(self, file: Path, text: str) -> None:
        if not self._snakemake.is_dry():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
