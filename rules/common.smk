# In: the study's config file, the models, the machine.
# Out: GRID and CELLS (what to measure), RUNS and OUT (where it goes), and what the rules call.

import json
import os
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "scripts"))

from speedbump.grid.around import around_in_words, place_around
from speedbump.grid.cells import canonical, cell_id, takes_all
from speedbump.grid.devices import DevicesError, devices_file, recall_devices
from speedbump.grid.expansion import expand_study
from speedbump.grid.machine import find_machine
from speedbump.grid.models import ModelError, load_models
from speedbump.grid.order import measuring_order
from speedbump.grid.refined import read_plan, refine_settings, runs_of_other_stacks
from speedbump.grid.stack import StackError, find_stack
from speedbump.grid.study import StudyError, read_call, read_study
from speedbump.grid.suggestion import partial_report
from speedbump.grid.work import describe_study, describe_work, survey_runs, write_work
from speedbump.measure.devices import probe_devices

TARGETS = (
    "all",
    "measure_cell",
    "plan_refinement",
    "collect_requests",
    "segment_regimes",
    "compare_series",
    "compare_stacks",
    "check_claims",
    "judge_hypotheses",
    "copy_workload",
    "draw_charts",
    "build_site",
)

if not workflow.configfiles:

    configfile: "config/config.yaml"


def say(line):
    if workflow.is_main_process:
        print(f"speedbump: {line}", file=sys.stderr, flush=True)


STUDY_FILE = os.path.relpath(workflow.configfiles[-1])

try:
    if len(workflow.configfiles) > 1:
        raise StudyError("--configfile: two studies at once would be merged into one; give one")
    CALL = read_call(config)
    MACHINE = CALL.machine or find_machine()
    STACK = CALL.stack or find_stack()
    STUDY, CENTRE = place_around(read_study(config, STUDY_FILE, reserved=TARGETS), STUDY_FILE, MACHINE, STACK)
    MODELS = load_models(Path(STUDY.models))
    DEVICES = str(devices_file(MACHINE, STACK))
    PROBE = None if CALL.machine or CALL.stack else probe_devices
    GRID = expand_study(STUDY, STUDY_FILE, MODELS, lambda: recall_devices(Path(DEVICES), PROBE, say))
except (StudyError, ModelError, StackError, DevicesError) as mistake:
    sys.exit(f"speedbump: {mistake}")

PARTIAL = CALL.partial
RUNS = f"results/runs/{MACHINE}/{STACK}"
WHOLE = f"results/studies/{STUDY.study}"
OUT = f"{WHOLE}/partial" if PARTIAL else WHOLE
PLANS = f"{WHOLE}/plans/{MACHINE}"
WORK = f"{OUT}/lists/work.json"
REFINE = {experiment.name: experiment.refine for experiment in STUDY.experiments}
CELLS = {}
FILES = {}

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
MEASURING_OPTIONS = words(
    "--machine", MACHINE, "--stack", STACK, "--models", STUDY.models, "--limits", STUDY.limits.model_dump_json()
)

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


def run_file(experiment, cell):
    """File of a run of an experiment; from now on measure_cell knows its cell's parameters."""
    name = cell_id(cell)
    CELLS[name] = canonical(cell)
    file = f"{RUNS}/{name}.parquet"
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


def refined(experiment, plan):
    """Run files that a plan adds to an experiment."""
    return [run_file(experiment, cell) for cell in read_plan(Path(plan), GRID.cells[experiment], MACHINE, STACK)]


SCAN = {experiment: [run_file(experiment, cell) for cell in cells] for experiment, cells in GRID.cells.items()}

# Plans on disk are read at every parse: a job that starts anew must know the cells they revealed.
try:
    for plan in sorted(Path(PLANS, STACK).glob("*/*.json")):
        settings = REFINE.get(plan.parent.name)
        if settings and int(plan.stem) <= settings.rounds:
            refined(plan.parent.name, plan)
except StudyError as mistake:
    sys.exit(f"speedbump: {mistake}")


def plan_of(experiment, round):
    return f"{PLANS}/{STACK}/{experiment}/{round}.json"


def files_of(experiment, rounds=None):
    """Run files of an experiment after so many rounds of refinement (all of them when not said)."""
    files = list(SCAN[experiment])
    if rounds is None:
        rounds = REFINE[experiment].rounds if REFINE[experiment] and files else 0
    for round in range(1, rounds + 1):
        plan = plan_of(experiment, round)
        if not PARTIAL:
            plan = checkpoints.plan_refinement.get(experiment=experiment, round=round).output.plan
        elif not Path(plan).exists():
            break
        known = len(CELLS)
        new = refined(experiment, plan)
        if not new:
            break
        if len(CELLS) > known:
            list_work()
        files += new
    return list(dict.fromkeys(files))


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
    for line in [*around_in_words(CENTRE), *GRID.notices, *describe_work(GRID.cells, SCAN, survey(), MODELS)]:
        say(line)
