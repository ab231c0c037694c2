"""Only changed cells rerun: each change, and the jobs it costs."""

import json
import shutil

import polars as pl
import pytest

pytestmark = pytest.mark.pipeline

AFTER_TABLES = {
    "compare_series": 1,
    "compare_stacks": 1,
    "check_claims": 1,
    "judge_hypotheses": 1,
    "draw_charts": 1,
    "build_site": 1,
    "all": 1,
}
AFTER = {"collect_requests": 1, "segment_regimes": 1, **AFTER_TABLES}
AFTER_SEGMENTS = {job: n for job, n in AFTER.items() if job not in ("collect_requests", "compare_stacks")}


def test_nothing_changed_runs_nothing(project):
    assert project.run().jobs == {}


def test_one_budget_more_is_one_cell_and_what_follows(project):
    before = {run: run.stat().st_mtime_ns for run in project.runs}
    project.edit("tests/studies/tiny.yaml", "8-24+8", "8-32+8")
    outcome = project.run()
    assert outcome.status == 0, outcome.text
    assert outcome.jobs == {"measure_cell": 1, **AFTER}
    assert {run: run.stat().st_mtime_ns for run in project.runs if run in before} == before


def test_other_repeats_are_other_cells_and_the_old_ones_stay(project):
    project.edit("tests/studies/tiny.yaml", "repeats: 2", "repeats: 1")
    assert project.run().jobs == {"measure_cell": 3, **AFTER}
    assert len(project.runs) == 6
    project.edit("tests/studies/tiny.yaml", "repeats: 1", "repeats: 2")
    assert project.run().jobs == AFTER


@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        ("scripts/speedbump/analyse/cells.py", AFTER),
        ("scripts/segment_regimes.py", AFTER_SEGMENTS),
        ("scripts/draw_charts.py", {"draw_charts": 1, "build_site": 1, "all": 1}),
        ("scripts/build_site.py", {"build_site": 1, "all": 1}),
        ("scripts/speedbump/measure/supervisor.py", {}),
        ("scripts/measure_cell.py", {}),
    ],
)
def test_a_comment_in_a_module_reruns_what_is_made_by_it_and_no_cell(project, file, jobs):
    path = project.root / file
    path.write_text(path.read_text() + "\n# a comment\n")
    outcome = project.run("-n")
    assert outcome.jobs == jobs, outcome.text


def test_a_template_reruns_the_site_alone(project):
    template = next((project.root / "reports").rglob("*.html*"))
    template.write_text(template.read_text() + "\n")
    assert project.run().jobs == {"build_site": 1, "all": 1}


def test_a_raised_protocol_makes_every_cell_new(project):
    project.edit("scripts/speedbump/grid/protocol.py", "PROTOCOL = ", "PROTOCOL = 1000 + ")
    assert project.run("-n").jobs["measure_cell"] == 3


def test_without_snakemakes_memory_nothing_is_measured_and_strange_parameters_are_reported(project):
    shutil.rmtree(project.root / ".snakemake")
    first, second, _ = project.runs
    shutil.copyfile(first, second)
    outcome = project.run()
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 0
    faults = pl.read_parquet(project.root / "results/studies/tiny/faults.parquet")
    assert faults["problem"].to_list() == ["wrong parameters"]
    assert faults["cell"].to_list() == [second.stem]
    assert f"-R {second.relative_to(project.root)}" in outcome.text


def test_two_studies_share_cells(project):
    text = (project.root / "tests/studies/tiny.yaml").read_text()
    (project.root / "tests/studies/other.yaml").write_text(text.replace("study: tiny", "study: other"))
    outcome = project.run(study="tests/studies/other.yaml")
    assert outcome.status == 0, outcome.text
    assert outcome.jobs == AFTER
    assert len(project.runs) == 3


def test_after_an_in_place_change_of_transformers_the_new_stack_is_measured_and_nothing_else(project, oldest):
    before = {run: (run.stat().st_mtime_ns, run.read_bytes()) for run in project.runs}
    changed = {"PYTHONPATH": str(oldest)}
    outcome = project.run(env=changed)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs == {"measure_cell": 3, **AFTER}
    assert {run: (run.stat().st_mtime_ns, run.read_bytes()) for run in project.runs if run in before} == before
    new = [run for run in project.runs if run not in before]
    assert len(new) == 3
    assert all(run.parent.name.endswith("_transformers-4.57.6") for run in new)
    requests = pl.read_parquet(project.root / "results/studies/tiny/requests.parquet")
    assert requests.group_by("stack").agg(pl.col("cell").n_unique())["cell"].to_list() == [3, 3]
    recorded = json.loads((project.root / "results/studies/tiny/environment.json").read_text())
    assert {entry["environment"]["transformers"] for entry in recorded} > {"4.57.6"}
    assert project.run(env=changed).jobs == {}
    back = project.run()
    assert back.jobs == AFTER, "the old stack is there still"


def test_the_default_study_does_not_leak_into_another(project):
    outcome = project.run("-n")
    assert "cpu_look" not in outcome.text
    listed = json.loads((project.root / "results/studies/tiny/lists/collect_requests.json").read_text())
    assert list(listed["experiments"]) == ["scan"]


def test_a_workload_is_judged_by_the_measured_curve(project):
    (project.root / "lengths.csv").write_text("n_prompt,n_gen,count\n5,8,10\n5,20,5\n5,400,1\n")
    project.edit("tests/studies/tiny.yaml", "title: A tiny study", "title: A tiny study\nworkload: lengths.csv")
    outcome = project.run()
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 0
    summary = json.loads((project.root / "results/studies/tiny/site/summary.json").read_text())
    (judged,) = summary["workload"]
    assert judged["n_requests"] == 16
    assert judged["outside"] == 1 / 16, "400 tokens were never measured"
    (project.root / "lengths.csv").unlink()
    refused = project.run("-n")
    assert "tests/studies/tiny.yaml: workload: lengths.csv cannot be read" in refused.text
