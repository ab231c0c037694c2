"""A simulated upgrade through real Snakemake: one regime moves, one vanishes, one appears."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from speedbump.grid.machine import find_machine

from .conftest import make_project

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/upgrade.yaml"
OLD, NEW = "linux-6.1_torch-2.9.0_transformers-5.0.0", "linux-6.1_torch-2.10.0-upgraded_transformers-5.0.0"
CPU = "Tiny GPT-2, for tests on the CPU"
FOLDER = "results/studies/upgrade"


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory):
    """The project, and the jobs of the run after the upgrade."""
    project = make_project(tmp_path_factory.mktemp("upgraded") / "project")
    shutil.copy2(Path(__file__).with_name("simulated_measure_cell.py"), project.root / "scripts/measure_cell.py")
    for stack in (OLD, NEW):
        outcome = run(project, stack)
    return project, outcome


def run(project, stack):
    """The study under a stack whose devices are known; it is not the one installed."""
    devices = {name: {"computes": name == "cpu", "present": name == "cpu"} for name in ("cpu", "mps", "cuda")}
    file = project.root / "results/machines" / find_machine() / f"{stack}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(devices))
    outcome = project.run("--config", f"stack={stack}", study=STUDY)
    assert outcome.status == 0, outcome.text
    return outcome


def summary(project):
    return json.loads((project.root / FOLDER / "site/summary.json").read_text())


def test_only_the_new_stacks_cells_are_measured(upgraded):
    _, outcome = upgraded
    assert outcome.jobs["measure_cell"] == 24


def test_the_report_says_what_became_of_each_regime(upgraded):
    project, outcome = upgraded
    told = summary(project)
    changes = {change["name"]: change for change in told["changes"]}
    assert {name: change["verdict"] for name, change in changes.items()} == {
        f"{CPU} (prompt 13)": "new",
        f"{CPU} (prompt 5)": "moved",
        CPU: "gone",
    }
    moved, gone, new = (changes[f"{CPU}{prompt}"]["sentence"] for prompt in (" (prompt 5)", "", " (prompt 13)"))
    assert gone == "The regime from 128 to 160 tokens is gone."
    assert moved == (
        "The regime from 128 to 160 tokens now begins 1 to 63 tokens later and ends 1 to 63 tokens later: it is from "
        "160 to 192 tokens."
    )
    assert new.startswith("A new slow regime from 192 to 224 tokens, ")
    sentence = (
        "torch 2.10.0-upgraded against torch 2.9.0: of 3 curves, 1 has a new slow regime, 1 has a slow regime that "
        "moved and 1 has lost a slow regime"
    )
    assert told["upgrade"] == sentence
    assert sentence in outcome.text, "said at the end of the run"
    page = (project.root / FOLDER / "site/index.html").read_text()
    assert sentence[1:] in page.replace('<span class="whole">', "").replace("</span>", "")
    assert moved in page


def test_the_gate_fails_for_what_is_worse_alone(upgraded):
    project, _ = upgraded
    unmeasured = project.script("scripts/gate.py", FOLDER)
    assert unmeasured.returncode == 2, "the stack in use is none of the simulated ones"
    assert ": of before " in unmeasured.stderr
    done = project.script("scripts/gate.py", FOLDER, "--pair", "2.9.0", "upgraded")
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert len(lines) == 2, lines
    assert lines[0].startswith(f"slower: {CPU} (prompt 13): new slow regime at 192–224 tokens, ")
    assert lines[1].startswith(f"slower: {CPU} (prompt 5): slower at 192 tokens, ")
    assert project.script("scripts/gate.py", FOLDER, "--pair", "upgraded", "2.9.0").returncode == 3


def test_budgets_that_did_not_change_are_not_said_to(upgraded):
    project, _ = upgraded
    budgets = pl.read_parquet(project.root / FOLDER / "budget_changes.parquet")
    assert budgets.height == 24
    assert budgets.filter(change="slower")["n_gen"].sort().to_list() == [192, 192, 224]
    assert budgets.filter(change="faster")["n_gen"].sort().to_list() == [128, 128, 160]


def test_an_upgrade_that_changes_nothing_passes(upgraded, tmp_path):
    project = upgraded[0].copy(tmp_path / "project")
    run(project, NEW.replace("2.10.0", "2.11.0"))
    told = summary(project)
    assert told["upgrade"].endswith("of 3 curves, 3 are unchanged")
    assert len([change for change in told["changes"] if change["newest"]]) == 3
    assert project.script("scripts/gate.py", FOLDER, "--pair", "2.10.0", "2.11.0").returncode == 0
    assert project.script("scripts/gate.py", FOLDER, "--pair", "2.9.0", "2.11.0").returncode == 1


def test_a_real_double_run_finds_no_change(measured, tmp_path):
    """The installed transformers measured again under another version number: a stack against itself."""
    project = measured.copy(tmp_path / "project")
    real = importlib.util.find_spec("transformers").submodule_search_locations[0]
    shadow = tmp_path / "site" / "transformers"
    shadow.mkdir(parents=True)
    for entry in Path(real).iterdir():
        if entry.name == "__init__.py":
            text, count = re.subn(r'^__version__ = ".*"', '__version__ = "99.1.2"', entry.read_text(), flags=re.M)
            assert count == 1
            (shadow / entry.name).write_text(text)
        else:
            (shadow / entry.name).symlink_to(entry)
    outcome = project.run(env={"PYTHONPATH": str(shadow.parent)})
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 3
    folder = project.root / "results/studies/tiny"
    budgets = pl.read_parquet(folder / "budget_changes.parquet")
    assert budgets["n_gen"].to_list() == [8, 16, 24]
    assert not budgets["change"].is_in(["slower", "faster"]).any()
    assert pl.read_parquet(folder / "series_changes.parquet")["verdict"].item() in ("unchanged", "can't tell")
    assert project.script("scripts/gate.py", "results/studies/tiny").returncode in (0, 3)
