# In: the study's config file, the models, the machine.
# Out: GRID and CELLS (what to measure), RUNS and OUT (where it goes), and what the rules call.

import json
import os
import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "scripts"))

from speedbump.grid.around import around_in_words, place_around
from speedbump.grid.cells import canonical, cell_id, takes_all
from speedbump.grid.devices import DevicesError, devices_file, recall_devices
from speedbump.grid.environments import ENVIRONMENTS, list_environments, probe_again, read_made, usable
from speedbump.grid.expansion import expand_study
from speedbump.grid.machine import find_machine, possible_devices
from speedbump.grid.models import ModelError, load_models
from speedbump.grid.order import measuring_order
from speedbump.grid.refined import check_plans, read_plan, refine_settings, runs_of_other_stacks
from speedbump.grid.stack import StackError, find_stack
from speedbump.grid.study import StudyError, read_call, read_study
from speedbump.grid.suggestion import partial_report
from speedbump.grid.upgrade import ROUND as CHECKED, choose_check, describe_check, write_check
from speedbump.grid.work import describe_study, describe_work, existing, survey_runs, write_work
from speedbump.measure.devices import probe_devices

TARGETS = (
    "all",
    "make_stack",
    "measure_cell",
    "plan_refinement",
    "collect_requests",
    "segment_regimes",
    "compare_series",
    "compare_stacks",
    "check_claims",
    "judge_hypotheses",
    "check_upgrade",
    "copy_workload",
    "draw_charts",
    "build_site",
)

if not workflow.configfiles:

    configfile: "config/config.yaml"


def say(line):
    if workflow.is_main_process:
        print(f"speedbump: {line}", file=sys.stderr, flush=True)


def find_devices():
    """Which compute here; for stacks that are not made yet, which may."""
    own = recall_devices(Path(DEVICES), PROBE, say)
    return {device: own.get(device, False) or bool(LISTED) and there for device, there in possible_devices().items()}


STUDY_FILE = os.path.relpath(workflow.configfiles[-1])

try:
    if len(workflow.configfiles) > 1:
        raise StudyError("--configfile: two studies at once would be merged into one; give one")
    CALL = read_call(config)
    if CALL.check and CALL.partial:
        raise StudyError("--config: check and partial make two different reports; give one")
    MACHINE = CALL.machine or find_machine()
    STACK = CALL.stack or find_stack()
    STUDY, CENTRE = place_around(read_study(config, STUDY_FILE, reserved=TARGETS), STUDY_FILE, MACHINE, STACK)
    MODELS = load_models(Path(STUDY.models))
    DEVICES = str(devices_file(MACHINE, STACK))
    PROBE = None if CALL.machine or CALL.stack else probe_devices
    LISTED = list_environments(STUDY, STUDY_FILE, MACHINE)
    GRID = expand_study(STUDY, STUDY_FILE, MODELS, find_devices)
    RUNS = f"results/runs/{MACHINE}"
    WHOLE = f"results/studies/{STUDY.study}"
    PLANS = f"{WHOLE}/plans/{MACHINE}"
    if workflow.is_main_process:
        check_plans(Path(PLANS), GRID.cells)
    CHECK = choose_check(STUDY, GRID.cells, Path(WHOLE), Path(RUNS), Path(PLANS), STACK) if CALL.check else None
except (StudyError, ModelError, StackError, DevicesError) as mistake:
    sys.exit(f"speedbump: {mistake}")

PARTIAL = CALL.partial
OUT = f"{WHOLE}/partial" if PARTIAL else f"{WHOLE}/check" if CHECK else WHOLE
RECORDS = [str(listed.record) for listed in LISTED if not PARTIAL or listed.record.exists()]
# Targets ask for environments themselves: Snakemake does not make what is missing between files that are there.
MADE = [] if PARTIAL else [str(path) for listed in LISTED for path in (listed.record, listed.folder)]
WORK = f"{OUT}/lists/work.json"
REFINE = {experiment.name: experiment.refine for experiment in STUDY.experiments}
CELLS = {}  # canonical JSON of every known cell by its id
FILES = {}  # and by experiment and its run's file
SCAN = {}  # run files that a stack's refinement starts from, by stack and experiment
GRIDS = {}  # cells of every experiment by stack; of a listed one once its environment is made

os.environ.update(SPEEDBUMP_PROGRESS=WORK)

# Snakemake tells every job to use one thread; a measured process gets what its user set, or torch's own choice.
THREAD_VARIABLES = [f"{library}_NUM_THREADS" for library in ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")]
THREAD_VARIABLES.append("VECLIB_MAXIMUM_THREADS")
USERS_THREADS = ["env", *(f"-u{name}" for name in THREAD_VARIABLES)]
USERS_THREADS += [f"{name}={value}" for name, value in os.environ.items() if name in THREAD_VARIABLES]


def words(*parts):
    """Words of a shell command, quoted for the shell, and for Snakemake, which fills in what stands in braces."""
    return shlex.join(parts).replace("{", "{{").replace("}", "}}")


PYTHON = words(sys.executable)
MEASURING_PYTHON = words(*USERS_THREADS, sys.executable)
MEASURING_OPTIONS = words("--machine", MACHINE, "--models", STUDY.models, "--limits", STUDY.limits.model_dump_json())

SHOW_LOG = "|| {{ cat {log:q} >&2; exit 1; }}"  # with rules quiet, Snakemake shows no failed job's log


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


def checked(experiment, stack, later):
    """Run files that exist of what an upgrade's check asked for; not those of ``later`` plans, which only rounds that
    come after the scan's have measured.
    """
    cells = {run_path(cell, stack): cell for cell in planned(experiment, stack, CHECKED)}
    found = existing(file for file in cells if file not in later)
    return [run_file(experiment, cell, stack) for file, cell in cells.items() if file in found]


def plan_of(experiment, stack, round):
    return f"{PLANS}/{stack}/{experiment}/{round}.json"


def take_up(stack, cells):
    """From now on the stack's cells can be measured: the scan's, and those of plans on disk, which are read at every
    parse, since a job that starts anew must know the cells they revealed. What an upgrade's check has measured belongs
    to the scan; what it only asked for does not.
    """
    GRIDS[stack] = cells
    SCAN[stack] = {name: [run_file(name, cell, stack) for cell in own] for name, own in cells.items()}
    for name in cells:
        rounds = range(1, 1 + (REFINE[name].rounds if REFINE[name] else 0))
        later = {
            file
            for round in rounds
            if Path(plan_of(name, stack, round)).exists()
            for file in refined(name, stack, round)
        }
        if Path(plan_of(name, stack, CHECKED)).exists():
            SCAN[stack][name] += checked(name, stack, later)


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
    else:
        take_up(STACK, GRID.cells)
except StudyError as mistake:
    sys.exit(f"speedbump: {mistake}")


def files_of(experiment):
    """Run files of an experiment on every stack that is measured, after its last round of refinement."""
    rounds = REFINE[experiment].rounds if REFINE[experiment] and not CHECK else 0
    files = (file for stack in measured_stacks() for file in files_after(experiment, stack, rounds))
    return list(dict.fromkeys(files))


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


def write_list(name, runs):
    """File that lists the runs of each experiment: there may be too many for a command line."""
    file = Path(f"{OUT}/lists/{name}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(runs, indent=1))
    return str(file)


def library(*rooms):
    """The modules a script is made of: editing one reruns what follows from it."""
    folders = [Path("scripts/speedbump", room) for room in ("grid", *rooms)]
    return sorted(
        [
            "scripts/speedbump/tables.py",
            *(str(file) for folder in folders for file in folder.rglob("*.py")),
        ]
    )


if workflow.is_main_process and not PARTIAL:
    known = {definition: read_made(definition.record) for definition in LISTED}
    lines = [f"{made.title} is left out: {made.failed}" for made in known.values() if made and made.failed]
    # A stack that is not made yet has no folder: its cells count as not done.
    stacks = [made.stack if made else d.name for d, made in known.items() if not (made and made.failed)]
    if CHECK:
        lines = describe_check(CHECK, Path(RUNS), STACK, MODELS)
    else:
        lines += describe_stacks(stacks if LISTED else [STACK])
    for line in [*around_in_words(CENTRE), *GRID.notices, *lines]:
        say(line)
