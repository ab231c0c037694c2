"""Which cells and run files a project has, what plans and checks add, and what is written when; without Snakemake."""

import json
import re
from pathlib import Path

import pytest

from speedbump.grid.cells import canonical, cell_id, series_id
from speedbump.grid.environments import ENVIRONMENTS, Made, read_made
from speedbump.grid.machine import find_os
from speedbump.grid.stack import stack_slug
from speedbump.grid.study import StudyError
from speedbump.plan.catalogue import EVERY_DEVICE, Catalogue, Snakemake, UnknownError
from speedbump.plan.project import open_project

ROOT = Path(__file__).parents[2]
MACHINE = "m"
OLD, NEW = "debian-12_torch-2.9.0_transformers-4.57.6", "debian-12_torch-2.13.0_transformers-4.57.6"
SCAN = {"name": "scan", "model": "tiny", "n_prompt": 5, "n_gen": [32, 64, 96]}
STUDY = {"study": "s", "title": "S", "models": str(ROOT / "tests/models"), "experiments": [SCAN]}
REFINED = {**STUDY, "experiments": [{**SCAN, "refine": {"rounds": 3}}]}


class Pending(Exception):  # noqa: N818
    """Stands for Snakemake's own: a checkpoint has still to run."""


class Workflow:
    """What Snakemake would say; ``waiting``: checkpoints that have not run."""

    def __init__(self, dry=False, targets=(), waiting=()):
        self.dry, self.targets, self.waiting, self.asked = dry, set(targets), set(waiting), []

    def wait_for(self, *checkpoint):
        self.asked.append(checkpoint)
        if checkpoint in self.waiting:
            raise Pending(checkpoint)

    @property
    def callbacks(self):
        return Snakemake(self.wait_for, self.wait_for, lambda: self.targets, lambda: self.dry, lambda: False)


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    """One in which each stack has been asked for its devices: the CPU computes."""
    monkeypatch.chdir(tmp_path)
    for stack in (OLD, NEW):
        write(f"results/machines/{MACHINE}/{stack}.json", {"cpu": {"computes": True, "present": True}})


def open_catalogue(study=STUDY, stack=NEW, workflow=None, said=None, **options):
    """The project and catalogue of a call on one machine and stack."""
    said = [] if said is None else said
    config = {**study, "machine": MACHINE, "stack": stack, **options}
    project = open_project(config, [Path("study.yaml")], ["all"], no_probe, said.append)
    return project, Catalogue(project, (workflow or Workflow()).callbacks, said.append)


def no_probe(*python):
    raise AssertionError("probed")


def write(file, content):
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def write_plan(project, number, budgets, stack=NEW, **more):
    """A round's plan on disk: one cell at each budget, by the study's protocol."""
    series = series_id(project.grid.cells["scan"][0], MACHINE, stack)
    cells = [{"series": series, "n_gen": n_gen, "process": 1, "warmups": 3, "repeats": 5} for n_gen in budgets]
    write(f"{project.folders.plans}/{stack}/scan/{number}.json", {"round": number, "cells": cells, **more})


def measure(files):
    for file in files:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()


def budgets(files):
    return [int(Path(file).name.split(".")[-3]) for file in files]


def tree():
    return {file: file.read_bytes() for file in Path().rglob("*") if file.is_file()}


def test_every_cell_has_a_run_file_of_its_machine_and_stack_and_its_parameters():
    project, catalogue = open_catalogue()
    cells = project.grid.cells["scan"]
    assert catalogue.runs("scan") == [f"results/runs/{MACHINE}/{NEW}/{cell_id(cell)}.parquet" for cell in cells]
    assert [catalogue.parameters(cell_id(cell)) for cell in cells] == list(map(canonical, cells))
    assert catalogue.measured_stacks() == [NEW]
    assert catalogue.environment(NEW) == []
    assert re.fullmatch(catalogue.stack_pattern, NEW)
    assert not re.fullmatch(catalogue.stack_pattern, OLD)


@pytest.mark.parametrize("ask", ["parameters", "definition"])
def test_what_the_study_does_not_have_is_one_line(ask):
    _, catalogue = open_catalogue()
    with pytest.raises(UnknownError, match=r"^tiny\.cpu\.8\.000000000000: .*study\.yaml"):
        getattr(catalogue, ask)("tiny.cpu.8.000000000000")


def test_what_is_missing_is_what_has_no_run_file():
    _, catalogue = open_catalogue()
    first, *others = catalogue.runs("scan")
    measure([first])
    assert catalogue.missing_runs() == others
    assert catalogue.all_runs() == [first, *others]


def test_a_partial_report_is_of_the_runs_that_exist_and_misses_none():
    _, whole = open_catalogue(REFINED)
    measure(whole.runs_after("scan", NEW, 0)[:2])
    _, catalogue = open_catalogue(REFINED, workflow=Workflow(waiting=[(NEW, "scan", 1)]), partial=True)
    assert catalogue.all_runs() == whole.runs_after("scan", NEW, 0)[:2]
    assert catalogue.missing_runs() == []
    assert catalogue.describe() == []


def test_a_cell_on_the_cpu_or_with_ballast_takes_every_device_and_no_gpu():
    _, catalogue = open_catalogue()
    (cell, *_) = (Path(file).stem for file in catalogue.runs("scan"))
    assert catalogue.devices_taken(cell) == EVERY_DEVICE
    assert catalogue.gpus_taken(cell) == 0
    write(f"results/machines/{MACHINE}/{NEW}.json", {"cuda": {"computes": True, "present": True}})
    limits = {"allow_ballast": True}
    experiment = {**SCAN, "device": "cuda", "n_gen": 32, "ballast_gb": [0, 1]}
    _, catalogue = open_catalogue({**STUDY, "limits": limits, "experiments": [experiment]})
    plain, loaded = (Path(file).stem for file in catalogue.runs("scan"))
    assert (catalogue.devices_taken(plain), catalogue.devices_taken(loaded)) == (1, EVERY_DEVICE)
    assert catalogue.gpus_taken(plain) == 1
    assert catalogue.any_cell_on("cuda")
    assert not catalogue.any_cell_on("cpu")


def test_in_blocks_every_first_process_comes_before_a_second():
    _, catalogue = open_catalogue({**STUDY, "blocks": 2})
    cells = [Path(file).stem for file in catalogue.runs("scan")]
    process = {cell: json.loads(catalogue.parameters(cell)).get("process", 1) for cell in cells}
    by_priority = sorted(cells, key=catalogue.priority, reverse=True)
    assert [process[cell] for cell in by_priority] == [1, 1, 1, 2, 2, 2]
    _, mixed = open_catalogue()
    assert len({mixed.priority(Path(file).stem) for file in mixed.runs("scan")}) == 3


def test_refinement_waits_for_each_round_and_adds_its_cells_until_a_plan_is_empty():
    workflow = Workflow(waiting=[(NEW, "scan", 1)])
    project, catalogue = open_catalogue(REFINED, workflow=workflow)
    with pytest.raises(Pending):
        catalogue.runs("scan")
    write_plan(project, 1, [48, 80])
    workflow.waiting = {(NEW, "scan", 2)}
    with pytest.raises(Pending):
        catalogue.runs("scan")
    write_plan(project, 2, [])
    workflow.waiting, workflow.asked = set(), []
    files = catalogue.runs("scan")
    assert workflow.asked == [(NEW, "scan", 1), (NEW, "scan", 2)], "the empty plan ends it before round 3"
    assert budgets(files) == [32, 64, 96, 48, 80]
    assert all(catalogue.parameters(Path(file).stem) for file in files)


def test_an_experiment_without_refinement_waits_for_nothing():
    workflow = Workflow()
    open_catalogue(workflow=workflow)[1].runs("scan")
    assert workflow.asked == []


def test_a_job_that_starts_anew_knows_the_cells_of_every_plan_on_disk():
    project, _ = open_catalogue(REFINED)
    write_plan(project, 1, [48])
    write_plan(project, 2, [40])
    _, anew = open_catalogue(REFINED, workflow=Workflow(waiting=[(NEW, "scan", 1)]))
    revealed = [{**project.grid.cells["scan"][0], "n_gen": n_gen, "process": 1} for n_gen in (40, 48)]
    assert all(anew.parameters(cell_id(cell)) == canonical(cell) for cell in revealed)


def test_a_plan_of_another_stack_adds_no_cell_and_is_read_all_the_same():
    project, _ = open_catalogue(REFINED, stack=OLD)
    write_plan(project, 1, [48], stack=OLD)
    _, catalogue = open_catalogue(REFINED)
    (cell,) = (cell for cell in [{**project.grid.cells["scan"][0], "n_gen": 48, "process": 1}])
    with pytest.raises(UnknownError, match="planned for another stack"):
        catalogue.parameters(cell_id(cell))
    Path(f"{project.folders.plans}/{OLD}/scan/1.json").write_text("{")
    with pytest.raises(StudyError, match=r"scan/1\.json: is no plan; delete it"):
        open_catalogue(REFINED)


def test_runs_of_other_stacks_are_those_that_exist_of_the_same_cells_and_of_cells_planned_there():
    project, catalogue = open_catalogue(REFINED, stack=OLD)
    write_plan(project, 1, [48], stack=OLD)
    write_plan(project, 2, [], stack=OLD)
    measured = catalogue.runs("scan")[1:]
    measure([*measured, f"results/runs/{MACHINE}/{OLD}/tiny.cpu.8.000000000000.parquet"])
    _, catalogue = open_catalogue(REFINED)
    assert sorted(catalogue.runs_of_other_stacks()) == sorted(measured)


def test_what_a_check_measured_joins_the_full_run_and_what_it_only_asked_for_does_not():
    project, _ = open_catalogue(REFINED)
    write_plan(project, 0, [40, 48])
    _, catalogue = open_catalogue(REFINED)
    assert budgets(catalogue.runs_after("scan", NEW, 0)) == [32, 64, 96]
    asked = [{**project.grid.cells["scan"][0], "n_gen": n_gen, "process": 1} for n_gen in (40, 48)]
    measure([f"results/runs/{MACHINE}/{NEW}/{cell_id(asked[0])}.parquet"])
    _, catalogue = open_catalogue(REFINED)
    assert budgets(catalogue.runs_after("scan", NEW, 0)) == [32, 64, 96, 40]
    assert catalogue.start_of_plan("scan", NEW, 1) == [cell_id(asked[0])], "the first plan names what it starts with"
    assert catalogue.start_of_plan("scan", NEW, 2) == []


def test_a_check_after_refinement_began_joins_the_study_and_leaves_the_plans_alone():
    project, _ = open_catalogue(REFINED)
    write_plan(project, 0, [40])
    write_plan(project, 1, [], checked=[])
    (asked,) = ({**project.grid.cells["scan"][0], "n_gen": n_gen, "process": 1} for n_gen in (40,))
    measure([f"results/runs/{MACHINE}/{NEW}/{cell_id(asked)}.parquet"])
    _, catalogue = open_catalogue(REFINED)
    assert budgets(catalogue.runs_after("scan", NEW, 0)) == [32, 64, 96]
    assert budgets(catalogue.runs("scan")) == [32, 64, 96, 40]


def test_plans_are_named_by_stack_experiment_and_round():
    _, catalogue = open_catalogue(REFINED)
    plans = f"results/studies/s/plans/{MACHINE}/{NEW}/scan"
    assert catalogue.earlier_plans("scan", NEW, 3) == [f"{plans}/1.json", f"{plans}/2.json"]
    assert catalogue.earlier_plans("scan", NEW, 1) == []


@pytest.fixture
def upgraded():
    """A study measured on the old stack, of which its report knows a smooth curve."""
    project, catalogue = open_catalogue(stack=OLD)
    measure(catalogue.runs("scan"))
    first = project.grid.cells["scan"][0]
    curve = {
        **{"series": series_id(first, MACHINE, OLD), "name": "Tiny", "machine": MACHINE, "stack": OLD, "axes": {}},
        **{"verdict": "smooth", "lengths_measured": {"n_gen_min": 32, "n_gen_max": 96}, "regimes": []},
    }
    write("results/studies/s/site/summary.json", {"curves": [curve]})
    return project


def test_a_check_measures_the_deciding_cells_alone_in_a_folder_of_its_own(upgraded):
    project, catalogue = open_catalogue(REFINED, check=True, workflow=Workflow(waiting=[(NEW, "scan", 1)]))
    assert budgets(catalogue.runs("scan")) == [32, 64, 96]
    assert project.out == "results/studies/s/check"
    assert project.worklist == "results/studies/s/check/lists/work.json"
    assert len(catalogue.runs_of_other_stacks()) == 3
    assert catalogue.describe()[0].startswith(f"{NEW} is checked against {OLD}")


def test_a_checks_plan_is_written_when_jobs_start_and_not_before(upgraded):
    """The regime's edges were measured by refinement alone, so that no scan has them."""
    write_plan(upgraded, 1, [48, 52], stack=OLD)
    added = [{**upgraded.grid.cells["scan"][0], "n_gen": n_gen, "process": 1} for n_gen in (48, 52)]
    measure(f"results/runs/{MACHINE}/{OLD}/{cell_id(cell)}.parquet" for cell in added)
    summary = json.loads(Path("results/studies/s/site/summary.json").read_text())
    edges = {"onset_low": 48, "onset_high": 52, "recovery_low": 64, "recovery_high": 96}
    summary["curves"][0]["regimes"] = [
        {"accepted": True, "confirmed": True, **edges, "slowdown": 9.0, "worst_n_gen": 64}
    ]
    write("results/studies/s/site/summary.json", summary)
    before = tree()
    _, catalogue = open_catalogue(REFINED, check=True, workflow=Workflow(dry=True))
    assert budgets(catalogue.runs("scan")) == [32, 48, 52, 64, 96]
    catalogue.start()
    assert tree() == before
    project, catalogue = open_catalogue(REFINED, check=True)
    assert tree() == before
    catalogue.start()
    plan = json.loads(Path(f"{project.folders.plans}/{NEW}/scan/0.json").read_text())
    assert [cell["n_gen"] for cell in plan["cells"]] == [48, 52]
    measure(catalogue.runs("scan"))
    _, full = open_catalogue(REFINED)
    assert budgets(full.runs_after("scan", NEW, 0)) == [32, 64, 96, 48, 52]


def test_what_is_known_is_told_before_work_starts(upgraded):
    said = []
    write("twin.yaml", {"study": "s"})
    _, catalogue = open_catalogue(said=said)
    assert [line.partition(",")[0] for line in catalogue.describe()] == ["twin.yaml is study 's'", "scan: 3 cells"]
    assert said == []


# What is written, and when.


def first_answer(*python):
    return {"cpu": {"computes": True, "present": True}, "mps": {"computes": False, "present": False}}


def test_a_dry_run_writes_nothing_and_a_run_remembers_the_devices_once_jobs_start():
    asked, before = [], tree()

    def probe(*python):
        asked.append(python)
        return first_answer()

    for dry in (True, True, False):
        project = open_project(STUDY, ["study.yaml"], [], probe, print)
        catalogue = Catalogue(project, Workflow(dry).callbacks, print)
        assert tree() == before
        assert len(catalogue.runs("scan")) == 3
        assert catalogue.list_runs_to_collect() == "results/studies/s/lists/collect_requests.json"
        catalogue.start()
        assert (tree() == before) is dry
    assert len(asked) == 3
    assert json.loads(Path(project.devices).read_text()) == first_answer()
    open_project(STUDY, ["study.yaml"], [], no_probe, print)


def test_a_run_lists_what_each_script_reads_and_what_is_left_for_the_cells():
    project, catalogue = open_catalogue(REFINED, workflow=Workflow(targets=["scan"]))
    write_plan(project, 1, [])
    files = catalogue.runs("scan")
    listed = json.loads(Path(catalogue.list_runs_to_collect()).read_text())
    assert listed == {"experiments": {"scan": files}, "other_stacks": []}
    listed = json.loads(Path(catalogue.list_runs_to_plan("scan", NEW, 1, files)).read_text())
    assert listed == {"experiments": {"scan": files}}
    catalogue.start()
    assert [entry["file"] for entry in json.loads(Path(project.worklist).read_text())] == files


@pytest.mark.parametrize(("targets", "counted"), [(["short"], 1), (["short", "scan"], 4), ([], 4), (["all"], 4)])
def test_cells_are_counted_of_the_experiments_that_were_asked_for(targets, counted):
    study = {**STUDY, "experiments": [SCAN, {**SCAN, "name": "short", "n_gen": 8}]}
    project, catalogue = open_catalogue(study, workflow=Workflow(targets=targets))
    catalogue.start()
    assert len(json.loads(Path(project.worklist).read_text())) == counted


def test_cells_that_a_plan_reveals_while_jobs_run_are_counted_from_then_on():
    project, catalogue = open_catalogue(REFINED)
    catalogue.start()
    assert len(json.loads(Path(project.worklist).read_text())) == 3
    write_plan(project, 1, [48])
    write_plan(project, 2, [])
    catalogue.runs("scan")
    assert len(json.loads(Path(project.worklist).read_text())) == 4


# Stacks that the study lists.

LISTED = {**STUDY, "stacks": [{"torch": ["2.8.0", "2.9.0"], "transformers": "4.57.6"}]}


def make(definition, **devices):
    """Record an environment whose devices do or don't compute."""
    (definition.folder / "bin").mkdir(parents=True, exist_ok=True)
    python = definition.folder / "bin" / "python"
    python.touch()
    stack = stack_slug(find_os(), definition.torch, definition.transformers)
    found = {name: {"computes": computes, "present": True} for name, computes in devices.items()}
    made = Made(title=definition.title, stack=stack, python=str(python), devices=found)
    definition.record.write_text(made.model_dump_json())
    return stack


def test_a_listed_stack_is_known_once_its_environment_is_made():
    project, _ = open_catalogue(LISTED)
    first, second = project.listed
    ENVIRONMENTS.mkdir(parents=True)
    workflow = Workflow(waiting=[(first.name,)])
    _, catalogue = open_catalogue(LISTED, workflow=workflow)
    with pytest.raises(Pending):
        catalogue.runs("scan")
    stacks = [make(first, cpu=True), make(second, cpu=True)]
    workflow.waiting = set()
    assert catalogue.measured_stacks() == stacks
    assert len(catalogue.runs("scan")) == 6
    assert catalogue.environment(stacks[1]) == [str(second.record)]
    assert all(re.fullmatch(catalogue.stack_pattern, stack) for stack in stacks)
    assert catalogue.definition(first.name) == first.as_json()
    assert len(json.loads(Path(project.worklist).read_text())) == 6
    with pytest.raises(UnknownError, match="turned out to be this one"):
        catalogue.environment(NEW)


def test_a_stack_that_measures_nothing_and_one_that_could_not_be_made_are_told():
    project, _ = open_catalogue(LISTED)
    first, second = project.listed
    ENVIRONMENTS.mkdir(parents=True)
    make(first, cpu=False)
    second.record.write_text(Made(title=second.title, failed="no such version").model_dump_json())
    said = []
    _, catalogue = open_catalogue(LISTED, said=said)
    assert said[0].startswith(f"{first.title} measures nothing: ")
    assert catalogue.runs("scan") == []
    assert f"{second.title} is left out: no such version" in catalogue.describe()


@pytest.mark.parametrize("dry", [True, False])
def test_a_device_that_computes_by_now_counts_at_once_and_its_record_waits_for_the_first_job(dry):
    def opened():
        project = open_project(LISTED, ["study.yaml"], [], first_answer, print)
        return project, Catalogue(project, Workflow(dry).callbacks, print)

    first, _ = opened()[0].listed
    ENVIRONMENTS.mkdir(parents=True)
    stack = make(first, cpu=False)
    project, catalogue = opened()
    assert catalogue.measured_stacks() == [stack]
    assert len(catalogue.runs("scan")) == 3
    assert read_made(first.record).computes == {"cpu": False}
    before = tree()
    catalogue.start()
    assert read_made(first.record).computes["cpu"] is not dry
    assert (tree() == before) is dry
    assert project.records == [str(one.record) for one in project.listed]
