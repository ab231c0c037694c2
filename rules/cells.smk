# In: the grid, the plans of refinement and of upgrade checks on disk.
# Out: CELLS, FILES, SCAN, JOINED, GRIDS: which run files every experiment has on every stack; and what rules ask of a
# cell or a stack.

import functools

from speedbump.grid.around import around_in_words
from speedbump.grid.cells import canonical, cell_id, takes_all
from speedbump.grid.environments import probe_again, read_made, usable
from speedbump.grid.order import measuring_order
from speedbump.grid.refined import read_plan, read_start, runs_of_other_stacks
from speedbump.grid.stack import left_out_in_words
from speedbump.grid.study import namesakes
from speedbump.grid.upgrade import ROUND as CHECKED, describe_check, write_check
from speedbump.grid.work import describe_work, existing, survey_runs, write_work

REFINE = {experiment.name: experiment.refine for experiment in STUDY.experiments}
CELLS = {}  # canonical JSON of every known cell by its id
FILES = {}  # and by experiment and its run's file
SCAN = {}  # run files that a stack's refinement starts from, by stack and experiment
JOINED = {}  # and those that an upgrade's check has measured, which count whatever refinement does
GRIDS = {}  # cells of every experiment by stack; of a listed one once its environment is made


def parameters(cell):
    """Canonical JSON of one of the study's cells, by its id."""
    if cell not in CELLS:
        raise WorkflowError(f"{cell}: no cell of {STUDY_FILE}, or planned for another stack")
    return CELLS[cell]


def device_of(cell):
    """The device in a cell's id."""
    return cell.split(".")[-3]


def turn_of(cell):
    """Priority of a cell: in a study of blocks, all first repeats of a process come before the second ones."""
    if not STUDY.blocks:
        return measuring_order(cell, STUDY.protocol.seed)
    return measuring_order(cell, STUDY.protocol.seed, json.loads(parameters(cell)).get("process", 1))


def devices_taken(cell):
    """How many of the machine's devices a cell keeps busy: one, or all, which Snakemake cuts to its limit."""
    return 1_000_000 if takes_all(json.loads(parameters(cell))) else 1


def run_path(cell, stack):
    return f"{RUNS}/{stack}/{cell_id(cell)}.parquet"


def run_file(experiment, cell, stack):
    """File of a run of an experiment; from now on measure_cell knows its cell's parameters."""
    name = cell_id(cell)
    CELLS[name] = canonical(cell)
    file = run_path(cell, stack)
    FILES.setdefault(experiment, {})[file] = CELLS[name]
    return file


def survey():
    """What is measured of all that is known."""
    return survey_runs([file for files in FILES.values() for file in files], MODELS)


def list_work():
    """For the progress lines: the cells of the experiments that are asked for."""
    asked = set(workflow.dag_settings.targets)
    chosen = asked if asked and asked <= set(FILES) else FILES
    cells = {file: cell for name in chosen for file, cell in FILES[name].items()}
    write_work(Path(WORK), cells, survey(), MODELS)


def planned(experiment, stack, round):
    """The cells that a plan adds to an experiment."""
    return read_plan(Path(plan_of(experiment, stack, round)), GRIDS[stack][experiment], MACHINE, stack)


def refined(experiment, stack, round):
    """Their run files."""
    return [run_file(experiment, cell, stack) for cell in planned(experiment, stack, round)]


def checked(experiment, stack):
    """Run files that exist of what an upgrade's check asked for."""
    if not Path(plan_of(experiment, stack, CHECKED)).exists():
        return []
    cells = {run_path(cell, stack): cell for cell in planned(experiment, stack, CHECKED)}
    done = existing(cells)
    return [run_file(experiment, cell, stack) for file, cell in cells.items() if file in done]


def plan_of(experiment, stack, round):
    return f"{PLANS}/{stack}/{experiment}/{round}.json"


def take_up(stack, cells):
    """From now on the stack's cells can be measured: the scan's, and those of plans on disk, which are read at every
    parse, since a job that starts anew must know the cells they revealed. What an upgrade's check has measured joins
    them; refinement starts from what of it was there when its first round was planned, or each check would undo it.
    """
    GRIDS[stack] = cells
    SCAN[stack] = {name: [run_file(name, cell, stack) for cell in own] for name, own in cells.items()}
    JOINED[stack] = {name: checked(name, stack) for name in cells}
    for name in cells:
        begun = read_start(Path(plan_of(name, stack, 1)))
        SCAN[stack][name] += [file for file in JOINED[stack][name] if begun is None or Path(file).stem in begun]
        for round in range(1, 1 + (REFINE[name].rounds if REFINE[name] else 0)):
            if Path(plan_of(name, stack, round)).exists():
                refined(name, stack, round)


def started_with(experiment, stack):
    """Ids of the cells that refinement starts with beside the scan's."""
    return [Path(file).stem for file in SCAN[stack][experiment] if file in JOINED[stack][experiment]]


def take_up_listed():
    """Stacks whose environments are made, each with the cells that its devices can measure."""
    for _, made in usable(LISTED):
        if made.stack not in GRIDS:
            try:
                grid = expand_study(STUDY, STUDY_FILE, MODELS, lambda made=made: made.computes)
            except StudyError as mistake:
                say(f"{made.title} measures nothing: {mistake}")
                cells = {name: [] for name in GRID.cells}
            else:
                cells = grid.cells
                for notice in grid.notices:
                    if notice not in GRID.notices:
                        say(f"{made.title}: {notice}")
            take_up(made.stack, cells)


def measured_stacks():
    """Slugs of the stacks to measure: this Python's own, or those that the study lists, once they are made."""
    if LISTED and not PARTIAL:
        for definition in LISTED:
            checkpoints.make_stack.get(environment=definition.name)
        known = len(GRIDS)
        take_up_listed()
        if len(GRIDS) > known:
            list_work()
    return list(GRIDS)


def definition_of(environment):
    """Canonical JSON of the environment's definition."""
    definition = next((definition for definition in LISTED if definition.name == environment), None)
    if definition is None:
        raise WorkflowError(f"{environment}: {STUDY_FILE} lists no such stack")
    return definition.as_json()


def environment_of(stack):
    """Record of the environment that measures a stack; none for this Python's own."""
    if not LISTED:
        return []
    record = next((definition.record for definition, made in usable(LISTED) if made.stack == stack), None)
    if record is None:
        raise WorkflowError(f"{stack}: {STUDY_FILE} lists no stack that turned out to be this one")
    return str(record)


try:
    if LISTED:
        if PROBE and workflow.is_main_process and not PARTIAL:
            probe_again(LISTED, PROBE, say)
        take_up_listed()
    elif CHECK:
        write_check(CHECK, Path(PLANS), MACHINE, STACK, GRID.cells)
        GRIDS[STACK] = GRID.cells
        SCAN[STACK] = {name: [run_file(name, cell, STACK) for cell in cells] for name, cells in CHECK.cells.items()}
        JOINED[STACK] = {name: [] for name in CHECK.cells}
    else:
        take_up(STACK, GRID.cells)
except StudyError as mistake:
    sys.exit(f"speedbump: {mistake}")


def files_of(experiment):
    """Run files of an experiment on every stack that is measured, after its last round of refinement."""
    rounds = REFINE[experiment].rounds if REFINE[experiment] and not CHECK else 0
    files = {}
    for stack in measured_stacks():
        files |= dict.fromkeys([*files_after(experiment, stack, rounds), *JOINED[stack][experiment]])
    return list(files)


def refined_fully(wildcards):
    """Runs that are still missing, and on the way the plans that are still to be made. A target must ask for them, or a
    stack that is new beside finished tables is not measured: Snakemake does not make what is missing between files that
    are there.
    """
    files = dict.fromkeys(file for experiment in GRID.cells for file in files_of(experiment)) if not PARTIAL else {}
    done = existing(files)
    return [file for file in files if file not in done]


def files_after(experiment, stack, rounds):
    """Run files of an experiment on one stack after so many rounds of refinement."""
    files = list(SCAN[stack][experiment])
    for round in range(1, 1 + (rounds if files else 0)):
        if not PARTIAL:
            checkpoints.plan_refinement.get(stack=stack, experiment=experiment, round=round)
        elif not Path(plan_of(experiment, stack, round)).exists():
            break
        known = len(CELLS)
        new = refined(experiment, stack, round)
        if not new:
            break
        if len(CELLS) > known:
            list_work()
        files += new
    return files


def other_stacks():
    """Run files of this machine's stacks that are not measured now; no job changes them."""
    return runs_beside(tuple(measured_stacks()))


@functools.cache
def runs_beside(measured):
    return runs_of_other_stacks(GRID.cells, Path(RUNS), Path(PLANS), measured, only=CHECK and CHECK.reference)


def describe_stacks(stacks):
    """What is left to measure on all of them, a line an experiment; one that is not made yet has all of GRID."""
    grids = {stack: GRIDS.get(stack, GRID.cells) for stack in stacks}
    grid = {name: [cell for own in grids.values() for cell in own[name]] for name in GRID.cells}
    files = {name: [run_path(cell, stack) for stack, own in grids.items() for cell in own[name]] for name in GRID.cells}
    known = survey_runs([file for own in files.values() for file in own], MODELS)
    return describe_work(grid, files, known, MODELS)


def to_read(files):
    """Runs to wait for: all, or in a partial report those that exist."""
    return [file for file in files if not PARTIAL or Path(file).exists()]


if workflow.is_main_process and not PARTIAL:
    known = {definition: read_made(definition.record) for definition in LISTED}
    lines = [f"{made.title} is left out: {made.failed}" for made in known.values() if made and made.failed]
    # A stack that is not made yet has no folder: its cells count as not done.
    stacks = [made.stack if made else d.name for d, made in known.items() if not (made and made.failed)]
    if CHECK:
        lines = describe_check(CHECK, Path(RUNS), STACK, MODELS)
    else:
        lines += describe_stacks(stacks if LISTED else [STACK])
    same = namesakes(STUDY.study, STUDY_FILE)
    twins = [f"{file} is study {STUDY.study!r}, too, and replaces this one's report; rename one" for file in same]
    for line in [*left_out_in_words(), *twins, *around_in_words(CENTRE), *GRID.notices, *lines]:
        say(line)
