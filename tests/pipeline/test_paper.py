"""The paper's study through real Snakemake: scaled down and measured, whole and simulated."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml

from speedbump.analyse.bundle import write_bundle
from speedbump.analyse.repeats import runs_to_repeat
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models
from speedbump.grid.study import read_study
from speedbump.tables import CLAIMS, COMPARISONS, SERIES_CHANGES, TABLES, read_table

from .conftest import ROOT, make_project
from .simulated_paper import MACHINE, OLD_STACK, SLOW_ON_SMALL, SMALL_MACHINE, STACK, write_run

pytestmark = pytest.mark.pipeline
SMALL = "tests/studies/paper.yaml"


def grid_of(file: str, computes: dict):
    study = read_study(yaml.safe_load((ROOT / file).read_text()), file)
    return expand_study(study, file, load_models(ROOT / study.models), lambda: computes).cells


def test_the_experiments_are_the_papers():
    """Published budgets, prompts and caches are all in the grid of a Mac."""
    cells = grid_of("config/paper.yaml", {"cpu": True, "mps": True, "cuda": True})
    for row in pl.read_csv(ROOT / "config/reference/hendria2026_latency.csv", infer_schema_length=None).to_dicts():
        kv_cache = {"on": "dynamic", "off": "off"}[row["kv_cache"]]
        wanted = (row["model"], row["backend"], row["prompt_tokens"], row["budget_tokens"], kv_cache)
        found = [
            cell
            for cell in cells[row["experiment"]]
            if tuple(cell[axis] for axis in ("model", "device", "n_prompt", "n_gen", "kv_cache")) == wanted
        ]
        assert len(found) == 1, row
        assert found[0]["instrument"] == ("per_step" if row["step_timers"] else "step_sync")
        assert (found[0]["warmups"], found[0]["repeats"], found[0]["harness"]) == (3, 5, "loop")
    assert {cell["instrument"] for cell in cells["memory"]} == {"memory"}


def test_every_experiment_is_a_target_of_its_own(fresh):
    outcome = fresh.run("-n", "memory", study=SMALL)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs == {"measure_cell": 2, "memory": 1}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The scaled-down study, measured here."""
    project = make_project(tmp_path_factory.mktemp("small") / "project")
    outcome = project.run(study=SMALL)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] <= 24
    return project


def table(project, study, table):
    return read_table(project.root / f"results/studies/{study}/{table.name}.parquet", table)


def test_the_scaled_down_study_fills_every_table(small):
    filled = {t.name: not table(small, "small-paper", t).is_empty() for t in TABLES}
    # a tiny model on a CPU has no slow regime and no fault, or the test says nothing of the pipeline
    expected_empty = {name for name in ("faults", "regimes") if not filled[name]}
    # nor has one machine with one stack anything to be compared with
    expected_empty |= {"series_changes", "regime_changes", "budget_changes"}
    expected_empty |= {"profiles"}  # the paper profiled nothing
    assert {name for name, full in filled.items() if not full} == expected_empty
    assert (small.root / "results/studies/small-paper/site/index.html").exists()


def test_its_comparisons_are_the_papers_pairs(small):
    found = table(small, "small-paper", COMPARISONS)
    assert {"kv_cache", "n_prompt", "model", "instrument"} <= set(found["axis"])
    cache = found.filter(axis="kv_cache")
    assert cache.select("n_gen", "over_value", "same_tokens").sort("n_gen").rows() == [
        (16, "off", True),
        (32, "off", True),
    ]


def test_claims_on_mps_are_not_measured_without_it(small):
    claims = table(small, "small-paper", CLAIMS)
    assert claims["origin"].value_counts().sort("origin").rows() == [("measured", 21), ("published", 21)]
    assert set(claims.filter(origin="measured")["outcome"]) == {"not measured"}


def test_a_bundle_joins_as_another_machine(small, tmp_path, monkeypatch):
    """Made by its script, this machine then given another origin, listed beside one that is no bundle."""
    project = small.copy(tmp_path / "project")
    script = [sys.executable, "scripts/make_bundle.py", "results/studies/small-paper", "--out", "away.zip"]
    made = subprocess.run(script, cwd=project.root, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    (origin_file,) = project.root.glob("results/machines/*/origin.txt")
    away = origin_file.read_text()
    origin_file.write_text("0000aaaa")
    (project.root / "bad.zip").write_text("no bundle")
    project.edit(SMALL, "compare_with_paper: true", "bundles: [bad.zip, away.zip]")
    outcome = project.run(study=SMALL)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 0
    cells = pl.read_parquet(project.root / "results/studies/small-paper/cells.parquet")
    home = cells["machine"].str.split("~").list.first()[0]
    assert dict(cells["machine"].value_counts().rows()) == {home: 13, f"{home}~{away}": 13}
    faults = pl.read_parquet(project.root / "results/studies/small-paper/faults.parquet")
    assert faults.select("file", "problem").rows() == [("bad.zip", "refused bundle")]
    monkeypatch.chdir(project.root)
    assert not [
        run for run in runs_to_repeat(Path("results/studies/small-paper")) if Path(run).resolve() not in project.runs
    ]
    changes = table(project, "small-paper", SERIES_CHANGES)
    assert not changes.is_empty()
    assert changes["shift"].drop_nulls().to_list() == pytest.approx([1.0] * changes["shift"].count())
    assert set(changes["verdict"]) <= {"unchanged", "can't tell"}


def test_a_study_of_bundles_alone_measures_nothing(small, tmp_path):
    project = small.copy(tmp_path / "project")
    made = project.script("scripts/make_bundle.py", "results/studies/small-paper", "--out", "away.zip")
    assert made.returncode == 0, made.stderr
    shutil.rmtree(project.root / "results/runs")
    gathered = {"study": "gathered", "title": "Gathered", "models": "tests/models", "bundles": ["away.zip"]}
    (project.root / "gathered.yaml").write_text(yaml.safe_dump(gathered))
    outcome = project.run(study="gathered.yaml")
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 0
    summary = json.loads((project.root / "results/studies/gathered/site/summary.json").read_text())
    assert len({curve["series"] for curve in summary["curves"]}) == len(summary["curves"]) > 1


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The whole study on a simulated Mac, with the bundles of a smaller one and of an older stack."""
    project = make_project(tmp_path_factory.mktemp("simulated") / "project")
    cells = grid_of("config/paper.yaml", {"cpu": True, "mps": True, "cuda": False})
    for cell in (cell for own in cells.values() for cell in own):
        write_run(project.root / "results", cell)
    devices = {device: {"computes": device != "cuda", "present": device != "cuda"} for device in ("cpu", "mps", "cuda")}
    place = project.root / "results/machines" / MACHINE
    place.mkdir(parents=True)
    (place / f"{STACK}.json").write_text(json.dumps(devices))
    (place / "origin.txt").write_text("0000aaaa")
    on_mps = [cell for cell in cells["baseline"] if cell["device"] == "mps"]
    small = [write_run(project.root / "small", cell, SMALL_MACHINE, slow=SLOW_ON_SMALL) for cell in on_mps[:12]]
    older = [write_run(project.root / "older", cell, stack=OLD_STACK) for cell in on_mps]
    for name, origin, runs in (("small", "0000bbbb", small), ("older", "0000aaaa", older)):
        write_bundle(runs, "paper", origin, lambda frame, record: (frame, record), project.root / f"{name}.zip")
    project.edit("config/paper.yaml", "bundles: []", "bundles: [small.zip, older.zip]")
    outcome = project.run("--config", f"machine={MACHINE}", f"stack={STACK}", study="config/paper.yaml")
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 0
    return project


def test_the_papers_regimes_come_back(simulated):
    folder = simulated.root / "results/studies/paper"
    series = pl.read_parquet(folder / "series.parquet").filter(
        machine=MACHINE, stack=STACK, device="mps", kv_cache="dynamic", n_prompt=65
    )
    regimes = pl.read_parquet(folder / "regimes.parquet").filter("accepted")
    found = {
        (row["model"], row["instrument"]): (row["first_slow"], row["last_slow"])
        for row in series.join(regimes, on="series").to_dicts()
    }
    assert found == {
        ("gpt2-medium", "step_sync"): (512, 624),
        ("gpt2-medium", "per_step"): (512, 624),
        ("gpt2-medium", "memory"): (512, 512),
        ("gpt2-large", "step_sync"): (384, 384),
        ("gpt2-large", "memory"): (384, 384),
        ("bloom-560m", "step_sync"): (512, 640),
        ("opt-350m", "step_sync"): (512, 512),
    }
    assert set(series.filter(pl.col("model").is_in(["distilgpt2", "gpt2"]))["verdict"]) == {"smooth"}


def test_the_papers_claims_come_back(simulated):
    claims = table(simulated, "paper", CLAIMS)
    assert set(claims["machine"].drop_nulls()) == {MACHINE, SMALL_MACHINE}
    here = {row["claim_id"]: row for row in claims.filter(machine=MACHINE, stack=STACK).to_dicts()}
    outcomes = {claim: row["outcome"] for claim, row in here.items()}
    assert outcomes.pop("C14") == "not measured"
    assert outcomes == dict.fromkeys(outcomes, "holds")
    values = {
        "C1": [21.1],
        "C3": [512, 624],
        "C4": [10.4],
        "C5": [9.7],
        "C8": [1.98],
        "C10": [100],
        "C13": [0],
        "C15": [2, 2],
        "C18": [2],
        "C19": [2, 2],
        "C20": [384, 512],
        "C21": [1.1, 1.4, 2.9, 3.2],
    }
    for claim, value in values.items():
        assert here[claim]["values"] == pytest.approx(value, rel=0.06), claim
    assert here["C11"]["values"] == pytest.approx([0], abs=0.1)
    assert here["C12"]["values"] == pytest.approx([384])


def test_simulated_runs_say_that_they_are(simulated):
    environments = json.loads((simulated.root / "results/studies/paper/environment.json").read_text())
    assert {entry["environment"]["chip"] for entry in environments} == {"simulated"}
    requests = pl.read_parquet(simulated.root / "results/studies/paper/requests.parquet")
    assert requests["machine"].str.starts_with("simulated-").all()
