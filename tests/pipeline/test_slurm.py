"""The Slurm profile on a real Slurm of one node, whose two GPUs and whose worker are stand-ins."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from .conftest import make_project, wait_until
from .simulated_worker import install_stand_ins
from .slurm import slurm

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.slurm,
    pytest.mark.skipif(os.environ.get("SPEEDBUMP_SLURM") != "1", reason="SPEEDBUMP_SLURM=1 asks for it"),
]
STUDY = "tests/studies/fifty.yaml"
OF_THE_CLOCK = ("started_at", "disturbed")
"""Columns of the requests that say when it was, or what else the machine did."""
OPTIONS = (
    *("--workflow-profile", "profiles/slurm", f"--configfile={STUDY}"),
    *("--default-resources", "mem_mb=500", "--set-threads", "measure_cell=1"),
    *("--slurm-init-seconds-before-status-checks", "3", "--slurm-status-command", "squeue"),
)
"""What this node's size asks for, and what spares the test some waiting."""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    with slurm(tmp_path_factory.mktemp("slurm")) as name:
        yield name


@pytest.fixture
def cluster(node, tmp_path, monkeypatch):
    """A project on a folder that the node shares, and the options that name the node's machine and stack."""
    monkeypatch.setenv("SIMULATED_PAUSE_S", "0.05")
    project = make_project(tmp_path / "shared")
    for name, value in install_stand_ins(tmp_path, project).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"{project.root / 'scripts'}:{os.environ.get('PYTHONPATH', '')}")
    place = ask("srun", "-n1", "--gpus=1", sys.executable, "scripts/probe_devices.py", cwd=project.root).split()
    assert place[0] == "--config"
    return project, place


def ask(*command, cwd=None):
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


def start(project, *arguments):
    command = [sys.executable, "-m", "snakemake", *OPTIONS, *arguments]
    return subprocess.Popen(
        command, cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def read(project, table):
    return pl.read_parquet(project.root / f"results/studies/fifty/{table}.parquet")


def jobs(state):
    return ask("squeue", "-h", "-t", state, "-o", "%i").split()


def test_fifty_cells_with_a_drained_node_and_a_cancelled_job_give_the_tables_of_a_local_run(cluster, node, tmp_path):
    project, place = cluster
    process = start(project, *place)
    try:
        wait_until(lambda: len(project.runs) >= 5, 300)
        ask("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
        wait_until(lambda: not jobs("running"), 120)
        measured, waiting = len(project.runs), jobs("pending")
        time.sleep(5)
        assert (len(project.runs), bool(waiting)) == (measured, True)
        ask("scontrol", "update", f"nodename={node}", "state=resume")
        wait_until(lambda: len(project.runs) >= measured + 3, 120)
        cancelled = wait_until(lambda: jobs("running"), 60)[0]
        ask("scancel", cancelled)
        text, _ = process.communicate(timeout=900)
    finally:
        process.kill()
        subprocess.run(["scancel", "--user=root"], check=False)
    assert process.returncode == 0, text
    assert "Trying to restart" in text
    assert len(project.runs) >= 50

    local = make_project(tmp_path / "local")
    install_stand_ins(tmp_path, local)
    outcome = local.run("--cores", "2", "--resources", "accelerator=2", study=STUDY)
    assert outcome.status == 0, outcome.text
    assert [run.name for run in project.runs] == [run.name for run in local.runs]
    for table in ("requests", "series", "regimes", "budgets"):
        ours, theirs = read(project, table), read(local, table)
        dropped = [name for name in OF_THE_CLOCK if name in ours.columns]
        assert ours.drop(dropped).equals(theirs.drop(dropped)), table
    assert read(project, "regimes").filter("accepted").height == 1


def test_a_job_on_another_machine_than_declared_refuses_with_one_line(cluster):
    project, place = cluster
    machine, stack = (word.split("=")[1] for word in place[1:])
    devices = project.root / "results/machines"
    shutil.copytree(devices / machine, devices / "another-1gb")
    process = start(project, "--config", "machine=another-1gb", f"stack={stack}", "--retries", "0", "alone")
    process.communicate(timeout=300)
    assert process.returncode != 0
    assert project.runs == []
    logs = "".join(log.read_text() for log in Path(project.root, ".snakemake/slurm_logs").rglob("*.log"))
    assert f"this machine is {machine}, and the cell belongs to another-1gb" in logs
    assert "Traceback" not in logs
