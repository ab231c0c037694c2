"""Refinement through real Snakemake, on a simulated device with a slow regime."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from .simulated_measure_cell import SLOW

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/regime.yaml"


@pytest.fixture(scope="module")
def refined(tmp_path_factory):
    from .conftest import make_project

    project = make_project(tmp_path_factory.mktemp("refined") / "project")
    shutil.copy2(Path(__file__).with_name("simulated_measure_cell.py"), project.root / "scripts/measure_cell.py")
    outcome = project.run(study=STUDY)
    assert outcome.status == 0, outcome.text
    return project, outcome


def table(project, name):
    return pl.read_parquet(project.root / f"results/studies/regime/{name}.parquet")


def test_edges_are_found_to_the_width_asked_for_and_confirmed_in_another_process(refined):
    project, _ = refined
    regime = table(project, "regimes").row(0, named=True)
    assert regime["accepted"]
    assert (regime["onset_low"], regime["onset_high"]) == (SLOW[0] - 1, SLOW[0])
    assert (regime["recovery_low"], regime["recovery_high"]) == (SLOW[1], SLOW[1] + 1)
    assert regime["slowdown"] == pytest.approx(10, rel=0.15)
    assert regime["confirmed"]
    assert table(project, "series")["verdict"].to_list() == ["slow regimes"]


def test_far_fewer_cells_than_a_full_grid(refined):
    project, outcome = refined
    measured = (project.root / "measured.log").read_text().splitlines()
    assert len(set(measured)) == len(measured) == outcome.jobs["measure_cell"]
    assert len(measured) < 0.4 * (256 - 32)


def test_every_added_budget_says_why(refined):
    project, _ = refined
    plans = sorted((project.root / "results/studies/regime/plans").glob("*/*/scan/*.json"))
    added = [cell for plan in plans for cell in json.loads(plan.read_text())["cells"]]
    assert added
    assert all(len(cell["why"]) > 20 for cell in added)


def test_a_finished_study_adds_nothing(refined):
    project, _ = refined
    again = project.run(study=STUDY)
    assert again.status == 0, again.text
    assert again.jobs == {}
    shutil.rmtree(project.root / ".snakemake")
    assert project.run(study=STUDY).jobs["measure_cell"] == 0


def test_a_revealed_cell_can_be_measured_again_by_name(refined):
    project, _ = refined
    scan = {32 * i for i in range(1, 9)}
    run = next(run for run in project.runs if int(run.name.split(".")[2]) not in scan)
    outcome = project.run("-R", str(run.relative_to(project.root)), study=STUDY)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 1
