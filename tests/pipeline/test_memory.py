"""A small Mac, through real Snakemake: the first look takes what fits; a curve that the guard stops is left."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml

from speedbump.grid.cells import cell_id
from speedbump.grid.devices import devices_file
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models
from speedbump.grid.room import Room, memory_of
from speedbump.grid.study import read_study

from .conftest import ROOT, STUDY
from .simulated_worker import install_stand_ins

pytestmark = pytest.mark.pipeline
MACHINE = "apple-m1-8gb"
STACK = "macos-15.5_torch-2.8.0_transformers-4.57.6"


def scan_cells(asked):
    """The cells of config/scan.yaml on that Mac."""
    file = "config/scan.yaml"
    study = read_study(yaml.safe_load((ROOT / file).read_text()), file)
    room = Room(memory_of(MACHINE), Path("none"), asked)
    models = load_models(ROOT / "config" / "models")
    devices = {"cpu": True, "mps": True, "cuda": False}
    return expand_study(study, file, models, lambda: devices, room).cells["medium_scan"]


@pytest.fixture
def small_mac(fresh):
    """A project that plans for a Mac with 8 GB whose MPS computes, and the words that say so."""
    file = fresh.root / devices_file(MACHINE, STACK)
    file.parent.mkdir(parents=True)
    file.write_text(
        json.dumps({name: {"computes": name != "cuda", "present": True} for name in ("cpu", "mps", "cuda")})
    )
    shutil.copy2(Path(__file__).with_name("simulated_measure_cell.py"), fresh.root / "scripts/measure_cell.py")
    return fresh, ["--config", f"machine={MACHINE}", f"stack={STACK}"]


def test_the_first_look_measures_what_fits_and_the_page_says_so(small_mac):
    project, place = small_mac
    outcome = project.run(*place, study=None, env={"SIMULATED_SLOW": ""})
    assert outcome.status == 0, outcome.text
    note = "gpt2 in float32 at 128 to 768 tokens needs up to 24 GiB, more than 0.7 of this machine's 8: distilgpt2"
    assert outcome.text.count(note) == 1
    cells = pl.read_parquet(project.root / "results/studies/first-look/cells.parquet")
    assert set(cells["model"]) == {"distilgpt2"}
    assert cells["n_gen"].max() == 480
    page = (project.root / "results/studies/first-look/site/index.html").read_text()
    assert page.count("more than 0.7 of this machine") == 1


def test_a_larger_study_names_what_it_leaves_out_and_takes_it_on_request(small_mac):
    project, place = small_mac
    asked = project.run("-n", *place, study="config/scan.yaml")
    assert asked.status == 0, asked.text
    (line,) = [line for line in asked.text.splitlines() if "beyond_memory" in line]
    assert "gpt2-medium on mps: 18 cells of 224 to 768 tokens need 9 to 64 GiB, more than this machine's 8" in line
    assert asked.jobs["measure_cell"] == 3
    whole = project.run("-n", *place, "limits={beyond_memory: true}", study="config/scan.yaml")
    assert whole.status == 0, whole.text
    assert whole.jobs["measure_cell"] == 21
    (cell,) = [cell for cell in scan_cells(asked=True) if cell["n_gen"] == 768]
    file = f"results/runs/{MACHINE}/{STACK}/{cell_id(cell)}.parquet"
    outcome = project.run(
        *place, "limits={beyond_memory: true}", "--", file, study="config/scan.yaml", env={"SIMULATED_SLOW": ""}
    )
    assert outcome.status == 0, outcome.text
    assert [run.name for run in project.runs] == [f"{cell_id(cell)}.parquet"]
    assert project.run("-n", *place, study="config/scan.yaml").jobs["measure_cell"] == 3  # asked for once, it stays
    assert "18 cells, from 224 tokens up, may need as much as 64 GiB of this machine's 8" in whole.text


def test_a_curve_is_left_after_two_stops_and_measured_all_the_same_with_r(fresh, tmp_path):
    environment = install_stand_ins(tmp_path, fresh)
    fresh.edit(STUDY, "n_gen: 8-24+8", "n_gen: [8, 16]")
    fresh.edit(STUDY, "experiments:", "limits: {guard: {free_memory_gb: 1000000}}\n\nexperiments:")
    outcome = fresh.run(env=environment)
    assert outcome.status == 0, outcome.text
    fresh.edit(STUDY, "n_gen: [8, 16]", "n_gen: [8, 16, 24, 32]")
    outcome = fresh.run(env=environment)
    assert outcome.status == 0, outcome.text
    cells = pl.read_parquet(fresh.root / "results/studies/tiny/cells.parquet").sort("n_gen")
    assert cells["outcome"].to_list() == ["stopped", "stopped", "beyond_memory", "beyond_memory"]
    assert "not started: the memory guard stopped 8 and 16 tokens of this curve" in cells["message"][3]
    assert "2 were stopped and 2 were not started" in (fresh.root / "results/studies/tiny/site/index.html").read_text()
    again = fresh.script("scripts/list_repeats.py", "results/studies/tiny").stdout
    assert not any(f".cpu.{n_gen}." in again for n_gen in (24, 32))
    (longest,) = (str(run.relative_to(fresh.root)) for run in fresh.runs if ".cpu.32." in run.name)
    assert fresh.run("-R", longest, env=environment).status == 0
    requests = pl.read_parquet(fresh.root / longest)
    assert requests["status"][0] == "stopped"
