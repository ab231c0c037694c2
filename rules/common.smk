# In: the study's config file, the models, the machine.
# Out: PROJECT (what this call is about), CATALOGUE (which cells and runs it has), and what all rules call.

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "scripts"))

from speedbump.grid.listing import visible
from speedbump.measure.devices import probe_devices
from speedbump.measure.power import hold_off_sleep
from speedbump.plan.catalogue import Catalogue, Snakemake
from speedbump.plan.location import code_folder, find_file, library
from speedbump.plan.next_study import DEFAULT, partial_report
from speedbump.plan.project import MISTAKES, open_project
from speedbump.plan.shell import with_users_threads, words

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

    configfile: find_file(DEFAULT)


def say(line):
    if workflow.is_main_process:
        print(f"speedbump: {line}", file=sys.stderr, flush=True)


SNAKEMAKE = Snakemake(
    await_environment=lambda name: checkpoints.make_stack.get(environment=name),
    await_plan=lambda stack, name, number: checkpoints.plan_refinement.get(stack=stack, experiment=name, round=number),
    targets=lambda: set(workflow.dag_settings.targets),
    is_dry=lambda: workflow.dryrun,
    is_forced=lambda: bool(workflow.dag_settings.forcerun),
)

try:
    PROJECT = open_project(config, workflow.configfiles, TARGETS, probe_devices, say, workflow.is_main_process)
    CATALOGUE = Catalogue(PROJECT, SNAKEMAKE, say)
except MISTAKES as mistake:
    sys.exit(f"speedbump: {mistake}")

STUDY, MACHINE, LISTED, CHECK = PROJECT.study, PROJECT.machine, PROJECT.listed, PROJECT.check
PARTIAL = PROJECT.call.partial
RUNS, WHOLE, PLANS, OUT = PROJECT.folders.runs, PROJECT.folders.whole, PROJECT.folders.plans, PROJECT.out
# Targets ask for environments themselves: Snakemake does not make what is missing between files that are there.
MADE = PROJECT.environment_outputs

os.environ.update(SPEEDBUMP_PROGRESS=PROJECT.worklist)

CODE = code_folder()
PYTHON = words(sys.executable)
MEASURING_PYTHON = words(*with_users_threads(os.environ), sys.executable)
MEASURING_OPTIONS = words("--machine", MACHINE, "--models", STUDY.models, "--limits", STUDY.limits.model_dump_json())
REFERENCE_OPTION = words("--reference", str(CODE / "config/reference"))
SHOW_LOG = "|| {{ cat {log:q} >&2; exit 1; }}"  # with rules quiet, Snakemake shows no failed job's log

if workflow.is_main_process:
    for line in CATALOGUE.describe():
        say(line)
