"""An upgrade's check through real Snakemake, on a simulated device whose regime moves, vanishes or stays."""

import json
import os
import shutil
from pathlib import Path

import pytest

from .conftest import make_project

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/regime.yaml"
OLD, NEW = (f"debian-12_torch-{version}_transformers-4.57.6" for version in ("2.9.0", "2.13.0"))
CHECK = "results/studies/regime/check/upgrade.json"
DECIDING = 9


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """The study, measured and refined on the old stack."""
    project = make_project(tmp_path_factory.mktemp("upgrade") / "project")
    shutil.copy2(Path(__file__).with_name("simulated_measure_cell.py"), project.root / "scripts/measure_cell.py")
    machine = project.script(
        "-c", "from speedbump.grid.machine import find_machine; print(find_machine())"
    ).stdout.strip()
    for stack in (OLD, NEW):
        file = project.root / "results" / "machines" / machine / f"{stack}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"cpu": {"computes": true, "present": true}}')
    outcome = run(project, OLD)
    assert outcome.status == 0, outcome.text
    return project


def run(project, stack, *, check=False, **simulated):
    options = ["--config", f"stack={stack}", *(["check=true"] if check else [])]
    env = {f"SIMULATED_{name.upper()}": value for name, value in simulated.items()}
    return project.run(*options, study=STUDY, env=env)


def measured(project):
    return (project.root / "measured.log").read_text().splitlines()


@pytest.mark.parametrize(
    ("simulated", "word"),
    [
        ({}, "unchanged"),
        ({"slow": "101-163"}, "moved"),
        ({"slow": ""}, "gone"),
        ({"pace": "1.5"}, "slower"),
    ],
)
def test_a_few_cells_tell_what_became_of_the_regime(studied, tmp_path, simulated, word):
    project = studied.copy(tmp_path / "project")
    outcome = run(project, NEW, check=True, **simulated)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == DECIDING
    (curve,) = json.loads((project.root / CHECK).read_text())["curves"]
    assert curve["verdict"] == word, curve
    assert f"Tiny GPT-2, for tests on the CPU: {word}: " in outcome.text


def test_the_cost_is_said_before_it_starts(studied):
    before = studied.tree()
    outcome = studied.run("-n", "--config", f"stack={NEW}", "check=true", study=STUDY)
    assert studied.tree() == before, "a dry run writes nothing"
    assert f"the check: {DECIDING} cells, 0 done, about 9 s left" in outcome.text
    cells = len(set(measured(studied)))
    assert f"the full run: {cells} cells, 0 done, about {cells} s left" in outcome.text


def test_the_full_tables_stay_and_the_full_run_takes_up_what_the_check_measured(studied, tmp_path):
    project = studied.copy(tmp_path / "project")
    folder = project.root / "results/studies/regime"
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    old = len(measured(project))
    assert run(project, NEW, check=True, slow="101-163").status == 0
    assert {file: file.read_bytes() for file in before} == before
    assert run(project, NEW, check=True, slow="101-163").jobs == {}
    outcome = run(project, NEW, slow="101-163")
    assert outcome.status == 0, outcome.text
    new = measured(project)[old:]
    assert len(set(new)) == len(new) == DECIDING + outcome.jobs["measure_cell"]
    summary = json.loads((folder / "site/summary.json").read_text())
    (regime,) = next(curve for curve in summary["curves"] if curve["stack"] == NEW)["regimes"]
    assert (regime["onset_low"], regime["onset_high"]) == (100, 101)
    cells = {
        Path(run).stem
        for run in json.loads((folder / "lists/collect_requests.json").read_text())["experiments"]["scan"]
    }
    assert {name.removesuffix(".parquet") for name in new} == cells, "every cell of the check is in the full study"
    assert run(project, NEW, slow="101-163").jobs == {}


def test_a_check_after_the_full_run_joins_it_and_undoes_nothing(studied, tmp_path):
    project = studied.copy(tmp_path / "project")
    assert run(project, NEW, slow="101-163").status == 0
    before = len(measured(project))
    assert run(project, NEW, check=True, slow="101-163").status == 0
    assert len(measured(project)) > before
    jobs = run(project, NEW, slow="101-163").jobs
    assert jobs["measure_cell"] == jobs["plan_refinement"] == 0
    assert jobs["collect_requests"] == 1
    listed = json.loads((project.root / "results/studies/regime/lists/collect_requests.json").read_text())
    assert {file.name for file in project.runs if NEW in str(file)} == {
        Path(run).name for run in listed["experiments"]["scan"]
    }
    assert run(project, NEW, slow="101-163").jobs == {}


def fail_check(project):
    """A check none of whose cells could be measured: what it asked for is planned, and that is all."""
    outcome = run(project, NEW, check=True, slow="broken")
    assert outcome.status != 0
    assert outcome.jobs["measure_cell"] == DECIDING
    assert not any(NEW in str(file) for file in project.runs)


@pytest.mark.parametrize("asked", [False, True])
def test_a_refined_study_is_measured_after_an_upgrade_without_a_check(studied, tmp_path, asked):
    """Also where a check failed: refinement then measures what it had asked for."""
    project = studied.copy(tmp_path / "project")
    if asked:
        fail_check(project)
    outcome = run(project, NEW)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["plan_refinement"] > 1
    assert outcome.jobs["measure_cell"] > DECIDING
    assert run(project, NEW).jobs == {}
    old = next(file for file in project.runs if OLD in str(file))
    os.utime(old)
    again = run(project, NEW).jobs
    assert again["collect_requests"] == 1, "another stack's run was replaced"
    assert again["measure_cell"] == again["plan_refinement"] == 0


def test_a_cell_that_only_a_check_asked_for_is_not_counted_by_the_full_run(studied, tmp_path):
    project = studied.copy(tmp_path / "project")
    fail_check(project)
    (plan,) = project.root.glob(f"results/studies/regime/plans/*/{NEW}/scan/0.json")
    assert json.loads(plan.read_text())["cells"]
    (scanned,) = (file for file in project.runs if file.name in measured(project)[:1])
    outcome = project.run(
        str(scanned.relative_to(project.root)).replace(OLD, NEW), "--config", f"stack={NEW}", study=STUDY
    )
    assert outcome.jobs["measure_cell"] == 1, outcome.text
    assert len(json.loads((project.root / "results/studies/regime/lists/work.json").read_text())) == 8


def test_a_broken_plan_is_one_line_wherever_it_is_read(studied, tmp_path):
    project = studied.copy(tmp_path / "project")
    (plan,) = project.root.glob(f"results/studies/regime/plans/*/{OLD}/scan/1.json")
    plan.write_text("{")
    for stack in (OLD, NEW):
        outcome = project.run("-n", "--config", f"stack={stack}", study=STUDY)
        assert outcome.status != 0
        assert "Traceback" not in outcome.text
        (line,) = (line for line in outcome.text.splitlines() if "is no plan" in line)
        assert line.endswith(f"{OLD}/scan/1.json: is no plan; delete it, and it is made again")


def test_without_an_earlier_stack_it_is_one_line(fresh):
    outcome = fresh.run("--config", "check=true", study=STUDY)
    assert outcome.status != 0
    assert "Traceback" not in outcome.text
    (line,) = [line for line in outcome.text.splitlines() if line.startswith("speedbump: check")]
    assert "no earlier stack of the study regime is measured on this machine" in line
