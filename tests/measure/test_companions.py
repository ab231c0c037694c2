"""A ballast and a predecessor beside the worker: they are there, they end with it, and their faults are rows."""

import os
import shutil
import signal
import subprocess
import time

import psutil
import pytest

from speedbump.grid.study import Limits
from speedbump.measure import companions
from speedbump.measure.companions import companions_of, watermark_variables, why_no_room
from speedbump.measure.plan import plan_requests
from speedbump.measure.system import Memory

from .conftest import ROOT, Run

GIB = 2**30
ASKED = {"allow_ballast": True}
LONG = {"model": "long", "n_gen": None, "sequence": [4, 90_000], "lifetime": "persistent", "warmups": 1, "repeats": 1}
IN_LAST = "request 3 of 3"

LESS_RIGHTS = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]

real = pytest.mark.model


def resident_bytes(process):
    return process.memory_info().rss


@real
def test_a_ballast_is_held_while_the_cell_is_measured_and_a_predecessor_waits_beside(cell_command):
    running = cell_command(limits=ASKED, ballast_gb=1, predecessor="running", **LONG).start_on_terminal()
    running.wait_for(IN_LAST)
    ballast, predecessor, worker = running.workers()
    assert resident_bytes(ballast) > GIB
    assert resident_bytes(predecessor) > 100 << 20
    before_s = sum(predecessor.cpu_times()[:2])
    time.sleep(0.5)
    assert sum(predecessor.cpu_times()[:2]) - before_s < 0.2
    running.process.send_signal(signal.SIGKILL)
    running.finish()
    _, alive = psutil.wait_procs([ballast, predecessor, worker], timeout=20)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@real
def test_a_ballast_is_locked_in_memory_or_says_that_it_is_not(cell_command):
    free = cell_command(limits=ASKED, ballast_gb=1).run()
    assert free.code == 0, free.stderr
    assert free.metadata["environment"]["ballast_locked"] == ("is not locked" not in free.stderr)
    if shutil.which("prlimit") is None:
        pytest.skip("this system has no prlimit")
    # Root may lock what it likes, whatever the limit; a process that gave that right up may not.
    command = cell_command(limits=ASKED, ballast_gb=1)
    limited = ["prlimit", "--memlock=65536", *(LESS_RIGHTS if os.getuid() == 0 else []), *command.arguments]
    done = subprocess.run(limited, env=command.environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "the ballast is not locked in memory and may be swapped out: Cannot allocate memory" in done.stderr
    assert Run(0, "", command.out).metadata["environment"]["ballast_locked"] is False


@real
def test_a_predecessor_changes_no_token(cell_command):
    alone, after = cell_command().run(), cell_command(predecessor="running").run()
    assert after.code == 0, after.stderr
    assert after.column("status") == ["ok"] * 3
    assert after.column("predecessor") == ["running"] * 3
    assert set(after.column("tokens_hash")) == set(alone.column("tokens_hash"))


@real
def test_a_predecessor_that_dies_is_a_row(cell_command):
    running = cell_command(predecessor="running", **LONG).start_on_terminal()
    running.wait_for(IN_LAST)
    running.workers()[0].kill()
    run = running.finish()
    assert run.code == 0, run.stderr
    assert run.column("status") == ["ok", "ok", "killed"]
    assert run.column("message")[2] == "the predecessor ended while the cell was measured"
    assert not any(run.column("lower_bound"))


@real
def test_a_ballast_that_dies_before_the_worker_starts_is_a_row(cell_command):
    running = cell_command(limits=ASKED, ballast_gb=1, predecessor="running", **LONG).start_on_terminal()
    while len(running.workers()) < 2:
        time.sleep(0.1)
    running.workers()[0].kill()
    run = running.finish()
    assert run.code == 0, run.stderr
    assert run.column("status") == ["killed", "not_run", "not_run"]
    assert run.column("message")[0] == "the ballast ended while the cell was measured"


@real
def test_a_predecessor_that_cannot_start_is_a_row(cell_command):
    run = cell_command(predecessor="running", model="vast").run()
    assert run.code == 0, run.stderr
    assert run.column("status") == ["out_of_memory", "not_run", "not_run"]
    assert run.column("message")[0].startswith("the predecessor: ")


def test_a_ballast_larger_than_what_is_free_is_a_row(cell_command):
    run = cell_command(limits=ASKED, ballast_gb=1_000_000).run()
    assert run.code == 0, run.stderr
    assert run.column("status") == ["out_of_memory", "not_run", "not_run"]
    assert run.column("message")[0].startswith("no room for a ballast of 1000000 GiB: ")


def test_the_guard_watches_while_a_ballast_is_filled(cell_command):
    limits = {**ASKED, "guard": {"free_disk_gb": 1e6}}
    run = cell_command(limits=limits, ballast_gb=1).run()
    assert run.column("status") == ["stopped", "not_run", "not_run"]
    assert run.column("message")[0].startswith("the ballast: stopped by the memory guard: ")
    assert not any(run.column("lower_bound"))


@pytest.mark.parametrize("axes", [{"ballast_gb": 1}, {"watermark": "high_1.0"}])
def test_what_touches_the_whole_machine_is_measured_on_request_alone(cell_command, axes):
    run = cell_command(**axes).run()
    assert run.code != 0
    (line,) = run.stderr.splitlines()
    assert line.startswith(f"measure_cell: {next(iter(axes))} ")
    assert "give the limit" in line
    assert not run.out.exists()


def test_room_is_what_the_guard_leaves(monkeypatch):
    monkeypatch.setattr(companions, "read_system", lambda: Memory(16 * GIB, 10 * GIB, 0))
    cell = {"model": "tiny", "device": "cpu", "n_gen": 8}
    assert why_no_room(cell, Limits()) is None
    assert why_no_room({**cell, "ballast_gb": 9}, Limits()) is None
    assert why_no_room({**cell, "ballast_gb": 10}, Limits()) == (
        "no room for a ballast of 10 GiB: 10.0 GiB of memory are free, and the guard keeps 0.5"
    )


@pytest.mark.parametrize(("warmups", "answered"), [(2, [0, 1]), (0, [0])])
def test_a_predecessor_answers_the_warm_ups(warmups, answered):
    cell = {"n_gen": 8, "warmups": warmups, "repeats": 3, "predecessor": "running", "model": "tiny", "device": "cpu"}
    ((name, task),) = companions_of(cell, {"kind": "cell", "stays": False}, plan_requests(cell))
    assert name == "predecessor"
    assert task["stays"]
    assert [request["request"] for request in task["requests"]] == answered


def test_watermarks_are_such_as_the_allocator_takes():
    """MPSAllocator.mm: the low ratio, 1.4 unless set, must not exceed the high one."""
    assert watermark_variables("default") == {}
    assert watermark_variables("high_1.6") == {"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "1.6"}
    assert watermark_variables("high_1.0") == {
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO": "1.0",
        "PYTORCH_MPS_LOW_WATERMARK_RATIO": "1.0",
    }
    assert watermark_variables("low_0.8") == {"PYTORCH_MPS_LOW_WATERMARK_RATIO": "0.8"}
