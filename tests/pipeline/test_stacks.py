"""A study that lists stacks: real environments, made, measured, kept. Some minutes, most of them pip's."""

import json
import shutil

import polars as pl
import pytest

from .conftest import make_project

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/stacks.yaml"
AFTER = ("collect_requests", "segment_regimes", "compare_stacks", "draw_charts", "build_site")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    project = make_project(tmp_path_factory.mktemp("stacks") / "a user's project")
    outcome = project.run(study=STUDY, timeout=1800)
    assert outcome.status == 0, outcome.text
    return project, outcome


def table(project, name):
    return pl.read_parquet(project.root / f"results/studies/stacks/{name}.parquet")


def records(project):
    return {file: json.loads(file.read_text()) for file in (project.root / "results/environments").glob("*.json")}


def test_every_stack_is_measured_by_its_own_versions(made):
    project, outcome = made
    assert outcome.jobs["make_stack"] == 3
    assert outcome.jobs["measure_cell"] == len(project.runs) == 4
    ran = json.loads((project.root / "results/studies/stacks/environment.json").read_text())
    assert {entry["environment"]["transformers"] for entry in ran} == {"4.57.6", "5.24.0"}
    assert {entry["environment"]["torch"].partition("+")[0] for entry in ran} == {"2.13.0"}
    requests = table(project, "requests")
    assert requests.group_by("stack").agg(pl.col("cell").n_unique())["cell"].to_list() == [2, 2]
    changes = table(project, "series_changes")
    assert changes["new_stack"].str.ends_with("_transformers-5.24.0").to_list() == [True]


def test_a_stack_that_cannot_be_installed_is_reported_and_can_be_tried_again(made):
    project, outcome = made
    (fault,) = table(project, "faults").iter_rows(named=True)
    assert fault["problem"] == "no environment"
    assert fault["message"].startswith("torch 2.13.0, transformers 0.0.99: ")
    assert "0.0.99" in (project.root / "results/studies/stacks/site/index.html").read_text()
    assert f"-R {fault['file']}" in outcome.text
    again = project.run("-R", fault["file"], study=STUDY)
    assert again.status == 0, again.text
    assert again.jobs["make_stack"] == 1
    assert again.jobs["measure_cell"] == 0


def test_an_environment_is_recorded_and_the_report_says_what_is_in_it(made):
    project, _ = made
    for file, record in records(project).items():
        if not record["failed"]:
            packages = file.with_suffix(".lock").read_text().split()
            assert packages == record["packages"]
            assert any(package.startswith("torch==2.13.0") for package in packages)
            assert str(project.root) not in file.read_text(), "no path of this machine"
    page = (project.root / "results/studies/stacks/site/index.html").read_text()
    assert "transformers==4.57.6" in page
    assert "transformers==5.24.0" in page


def test_nothing_is_made_or_measured_twice(made):
    project, _ = made
    assert project.run(study=STUDY).jobs == {}
    project.edit(STUDY, "title: Two stacks in one study", "title: The stacks of a study")
    outcome = project.run(study=STUDY)
    assert outcome.status == 0, outcome.text
    assert set(AFTER) <= set(outcome.jobs)
    assert not {"make_stack", "measure_cell"} & set(outcome.jobs)


def test_a_stack_more_is_one_environment_more(made):
    project, _ = made
    project.edit(STUDY, "0.0.99]", "0.0.99, 0.0.98]")
    outcome = project.run(study=STUDY)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["make_stack"] == 1
    assert outcome.jobs["measure_cell"] == 0
    assert table(project, "faults").height == 2


def test_what_a_listed_stack_has_measured_stays_when_it_is_taken_off_the_list(made):
    project, _ = made
    project.edit(STUDY, "[4.57.6, 5.24.0, 0.0.99, 0.0.98]", "5.24.0")
    outcome = project.run(study=STUDY)
    assert outcome.status == 0, outcome.text
    assert not {"make_stack", "measure_cell"} & set(outcome.jobs)
    assert table(project, "requests")["stack"].n_unique() == 2
    assert table(project, "faults").height == 0


def test_an_environment_that_was_deleted_is_made_again_and_nothing_measured_again(made):
    project, _ = made
    project.edit(STUDY, "5.24.0", "0.0.99")
    project.run(study=STUDY)
    shutil.rmtree(
        next(file.with_suffix("") for file, record in records(project).items() if "0.0.99" in record["title"])
    )
    outcome = project.run(study=STUDY)
    assert outcome.jobs["make_stack"] == 1
    assert outcome.jobs["measure_cell"] == 0
