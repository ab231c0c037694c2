"""The mechanism study through real Snakemake, on a simulated Mac with and without a regime."""

import json

import polars as pl
import pytest
import yaml

from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models
from speedbump.grid.study import read_study
from speedbump.plan.regime_anchor import place_around
from speedbump.tables import HYPOTHESES, MITIGATIONS, PREDICTIONS, read_table

from .conftest import ROOT, make_project
from .simulated_mechanism import CALM, MACHINE, POOL, STACK, write_run

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/mechanism.yaml"


def simulate(folder, world):
    """A project in which the whole study was measured on a simulated machine, and its report built."""
    project = make_project(folder / "project")
    study, _ = place_around(read_study(yaml.safe_load((ROOT / STUDY).read_text()), STUDY), STUDY, MACHINE, STACK)
    computes = {"cpu": True, "mps": True, "cuda": False}
    grid = expand_study(study, STUDY, load_models(ROOT / study.models), lambda: computes)
    for cell in {json.dumps(cell, sort_keys=True): cell for own in grid.cells.values() for cell in own}.values():
        write_run(project.root / "results", cell, world)
    place = project.root / "results/machines" / MACHINE
    place.mkdir(parents=True)
    devices = {device: {"computes": here, "present": here} for device, here in computes.items()}
    (place / f"{STACK}.json").write_text(json.dumps(devices))
    outcome = project.run("--config", f"machine={MACHINE}", f"stack={STACK}", study=STUDY)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 0
    return project


def read(project, table):
    return read_table(project.root / f"results/studies/mechanism/{table.name}.parquet", table)


def page(project):
    return (project.root / "results/studies/mechanism/site/index.html").read_text()


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return simulate(tmp_path_factory.mktemp("pool"), POOL)


def test_the_pool_is_supported_and_nothing_else_but_its_effect(pool):
    hypotheses = read(pool, HYPOTHESES)
    verdicts = dict(hypotheses.select("hypothesis", "verdict").unique().iter_rows())
    assert {h for h, verdict in verdicts.items() if verdict == "supported"} == {"H1", "H3"}
    assert {verdicts[h] for h in ("H2", "H4", "H5", "H6", "H7")} == {"contradicted"}
    assert "the allocator’s pool outgrows the memory (H1)" in page(pool)


def test_what_helps_is_in_the_report_with_its_price(pool):
    best = read(pool, MITIGATIONS).sort("rank").row(0, named=True)
    assert best["slowdown"] == pytest.approx(1, abs=0.1)
    assert best["price"] == pytest.approx(1, abs=0.1)
    text = page(pool)
    assert "What to do about it on this machine" in text
    assert 'data-chart="mitigations-1"' in text


def test_the_onset_lies_where_it_is_predicted(pool):
    own = read(pool, PREDICTIONS).filter(pl.col("origin") == "measured", pl.col("outcome").is_in(["hit", "miss"]))
    plain = own.filter(pl.col("n_prompt") == 65, pl.col("dtype") == "float32", pl.col("kv_cache") == "dynamic")
    assert set(plain.select("onset_low", "onset_high", "outcome").unique().rows()) == {(496, 512, "hit")}
    assert read(pool, PREDICTIONS).filter(origin="published").height == 20


def test_no_regime_nothing_to_explain(tmp_path):
    project = simulate(tmp_path, CALM)
    assert set(read(project, HYPOTHESES)["verdict"]) == {"nothing to explain"}
    assert read(project, MITIGATIONS)["price"].null_count() == 0
    text = page(project)
    assert "no regime; nothing to explain" in text
    assert "no regime, nothing to avoid" in text
