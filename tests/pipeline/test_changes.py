"""Only changed cells rerun: each change, and the jobs it costs."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

pytestmark = pytest.mark.pipeline

AFTER_TABLES = {
    "compare_series": 1,
    "compare_stacks": 1,
    "check_claims": 1,
    "draw_charts": 1,
    "build_site": 1,
    "all": 1,
}
AFTER = {"collect_requests": 1, "segment_regimes": 1, **AFTER_TABLES}


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
        ("scripts/segment_regimes.py", {k: v for k, v in AFTER.items() if k != "collect_requests"}),
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


def test_another_transformers_is_another_stack_and_the_old_files_stay(project, tmp_path):
    """The installed package under another version number, found before the real one."""
    real = importlib.util.find_spec("transformers").submodule_search_locations[0]
    shadow = tmp_path / "site" / "transformers"
    shadow.mkdir(parents=True)
    for entry in Path(real).iterdir():
        if entry.name == "__init__.py":
            text, count = re.subn(
                r'^__version__ = ".*"', '__version__ = "99.1.2"', entry.read_text(), flags=re.MULTILINE
            )
            assert count == 1
            (shadow / entry.name).write_text(text)
        else:
            (shadow / entry.name).symlink_to(entry)
    before = {run: run.read_bytes() for run in project.runs}
    outcome = project.run(env={"PYTHONPATH": str(shadow.parent)})
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 3
    assert {run: run.read_bytes() for run in project.runs if run in before} == before
    assert sum("transformers-99.1.2" in str(run) for run in project.runs) == 3
    series = pl.read_parquet(project.root / "results/studies/tiny/series.parquet")
    assert series["stack"].n_unique() == 2, "the report shows both stacks"
    folder = project.root / "results/studies/tiny"
    budgets = pl.read_parquet(folder / "budget_changes.parquet")
    assert budgets["n_gen"].to_list() == [8, 16, 24]
    assert not budgets["change"].is_in(["slower", "faster"]).any(), "the same code under two names has changed nothing"
    assert pl.read_parquet(folder / "series_changes.parquet")["verdict"].item() in ("unchanged", "can't tell")
    assert project.script("scripts/gate.py", "results/studies/tiny").returncode in (0, 3)


def test_a_patch_of_the_os_is_the_same_stack(monkeypatch):
    from speedbump.grid import machine

    monkeypatch.setattr(machine.platform, "system", lambda: "Darwin")
    names = set()
    for version in ("14.8.1", "14.8.2"):
        monkeypatch.setattr(machine.platform, "mac_ver", lambda version=version: (version, ("", "", ""), "arm64"))
        names.add(machine.find_os())
    assert names == {("macos", "14.8")}


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
