"""Several devices at once, through real Snakemake, supervisor and locks; devices and worker are stand-ins."""

import json
from itertools import pairwise

import polars as pl
import pytest

from speedbump.tables import read_metadata

from .simulated_worker import install_stand_ins

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/devices.yaml"


@pytest.fixture
def two_devices(fresh, tmp_path):
    """A project on a node with two simulated GPUs, and the environment that shows them."""
    return fresh, install_stand_ins(tmp_path, fresh)


def holds(project):
    """What each run says of the devices it held, in the order of time."""
    records = [json.loads(read_metadata(run)["speedbump"]) for run in project.runs]
    return sorted((record["held"] for record in records), key=lambda held: held["since_s"])


def test_two_devices_measure_two_cells_at_a_time_and_a_cpu_cell_has_the_machine_to_itself(two_devices):
    project, environment = two_devices
    outcome = project.run("--cores", "2", "--resources", "accelerator=2", study=STUDY, env=environment)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 7
    held = holds(project)
    assert {len(hold["slots"]) for hold in held} == {1, 2}
    assert sorted({hold["indices"][0] for hold in held if len(hold["slots"]) == 1}) == [0, 1]
    at_once = [(a, b) for a in held for b in held if a["since_s"] < b["since_s"] < a["until_s"]]
    assert at_once
    assert all(not set(a["slots"]) & set(b["slots"]) for a, b in at_once)
    assert "waiting: another measurement holds the device" not in outcome.text
    cells = pl.read_parquet(project.root / "results/studies/devices/cells.parquet")
    assert cells.filter(device="cuda")["slot"].n_unique() == 2
    assert cells.filter(device="cuda")["neighbours"].max() > 0.2
    assert cells.filter(device="cpu").select("slot", "neighbours").row(0) == (None, 0.0)


def test_by_default_one_cell_at_a_time_whatever_the_cores(two_devices):
    project, environment = two_devices
    outcome = project.run("--cores", "2", study=STUDY, env=environment)
    assert outcome.status == 0, outcome.text
    assert all(first["until_s"] <= then["since_s"] for first, then in pairwise(holds(project)))


def test_cells_are_counted_of_what_was_asked_for(two_devices):
    project, environment = two_devices
    outcome = project.run("alone", study=STUDY, env=environment)
    assert outcome.status == 0, outcome.text
    assert "cell 1 of 1: tiny on cpu, 16 tokens" in outcome.text
    outcome = project.run("scan", study=STUDY, env=environment)
    assert "cell 6 of 6: tiny on cuda" in outcome.text
