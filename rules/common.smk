# In: the study's config file, the models, the machine.
# Out: GRID (what to measure), RUNS and OUT (where it goes), and what all rules call.

import json
import os
import re
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "scripts"))

from speedbump.grid.around import place_around
from speedbump.grid.devices import DevicesError, devices_file, recall_devices
from speedbump.grid.environments import list_environments
from speedbump.grid.expansion import expand_study
from speedbump.grid.machine import find_machine, possible_devices
from speedbump.grid.models import ModelError, load_models
from speedbump.grid.refined import check_plans
from speedbump.grid.stack import StackError, find_stack
from speedbump.grid.study import StudyError, read_call, read_study
from speedbump.grid.suggestion import partial_report
from speedbump.grid.upgrade import choose_check
from speedbump.measure.devices import probe_devices
from speedbump.measure.power import hold_off_sleep

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
