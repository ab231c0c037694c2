"""The supervisor with a stand-in for the worker that needs no torch, and can do what a real one only seldom does."""

import tempfile
from pathlib import Path

import pytest

from speedbump.grid.models import load_model
from speedbump.grid.study import Limits
from speedbump.measure import guard, process, supervisor
from speedbump.tables import REQUESTS, read_table

MODEL = load_model(Path(__file__).parents[1] / "models" / "tiny.yaml")
CELL = {"model": "tiny", "device": "cpu", "n_gen": 8, "warmups": 1, "repeats": 2, "seed": 1}

STAND_IN = """
import json, os, sys, time
reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)
now = "2026-01-01T00:00:00+00:00"
memory = dict.fromkeys(["torch_current_bytes", "torch_driver_bytes", "footprint_bytes"])
memory |= dict.fromkeys(["rss_bytes", "system_used_bytes", "swap_used_bytes"], 1)
answer = dict(started_at=now, start_s=0.0, end_s=1.0, ttft_s=0.5, e2e_s=1.0, n_tokens=8, finite=True, samples=[],
              tokens_hash="0", distinct_tokens=8, step_s=None, **memory)
def report(event, **content):
    reports.write(json.dumps(dict(event=event, **content)) + "\\n")
report("ready", attention_ran="sdpa")
report("request_started", request=0, started_at=now)
report("request", request=0, **answer)
report("request_started", request=1, started_at=now)
"""


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    """No waiting for what else is measured on this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measures the cell with a worker that answers one request, begins the next, and then does ``ending``."""

    def measure(ending, limits=None, **cell):
        worker = tmp_path / "worker.py"
        worker.write_text(STAND_IN + ending)
        monkeypatch.setattr(process, "WORKER", worker)
        out = tmp_path / "cell.parquet"
        supervisor.measure_cell({**CELL, **cell}, MODEL, "machine", "stack", out, limits or Limits())
        return read_table(out, REQUESTS)

    return measure


def test_a_worker_that_hangs_is_timed_out(measure):
    rows = measure("time.sleep(600)", Limits(cell_limit_s=1.0))
    assert rows["status"].to_list() == ["ok", "timed_out", "not_run"]
    assert rows["message"][1] == "the cell's limit of 1 s passed"
    assert not rows["lower_bound"].any()


def test_the_memory_guard_stops_a_request_and_keeps_its_time(measure, monkeypatch):
    looks = iter([None, None, None])
    monkeypatch.setattr(supervisor, "breach_of", lambda *_: next(looks, "swap grew by 9.0 GiB, the limit is 4"))
    rows = measure("time.sleep(600)")
    assert rows["status"].to_list() == ["ok", "stopped", "not_run"]
    assert rows["lower_bound"].to_list() == [False, True, False]
    assert rows["e2e_s"][1] > 0
    assert rows["message"][1] == "stopped by the memory guard: swap grew by 9.0 GiB, the limit is 4"


def test_the_guard_counts_what_all_processes_of_a_cell_swap_out(measure, monkeypatch, tmp_path):
    started = tmp_path / "started"
    started.touch()
    for module in (guard, supervisor):
        monkeypatch.setattr(module, "swap_used_bytes", lambda: 3 * guard.GIB * len(started.read_text()))
    begin = f"with open({str(started)!r}, 'a') as file:\n    file.write('x')\n"
    stay = "if json.loads(sys.stdin.readline())['stays']:\n    report('done')\ntime.sleep(600)"
    rows = measure(begin + stay, Limits(cell_limit_s=20), predecessor="running")
    assert rows["message"][1] == "stopped by the memory guard: swap grew by 6.0 GiB, the limit is 4"


def test_the_request_limit_stops_a_request_and_keeps_its_time(measure):
    rows = measure("time.sleep(600)", request_limit_s=0.5)
    assert rows["status"].to_list() == ["ok", "stopped", "not_run"]
    assert rows["e2e_s"][1] > 0.5


def test_a_probe_stops_a_request_that_is_surely_slow(measure):
    rows = measure("time.sleep(600)", request_limit_s=60.0, probe={"max_repeats": 2, "stop_at_s": 0.5})
    assert rows["status"].to_list() == ["ok", "stopped", "not_run"]
    assert 0.5 < rows["e2e_s"][1] < 60


def test_a_worker_that_ends_without_a_word_has_failed(measure):
    rows = measure("print('about /home/jane/secret.txt'); sys.exit(3)")
    assert rows["status"].to_list() == ["ok", "failed", "not_run"]
    assert rows["message"][1] == "the worker ended with code 3: about secret.txt"


def test_a_worker_that_aborts_was_killed(measure):
    rows = measure("os.abort()")
    assert rows["status"].to_list() == ["ok", "killed", "not_run"]
    assert rows["message"][1] == "the worker was ended by SIGABRT"


def test_what_happens_after_the_last_request_flags_the_cell(measure):
    finish = "".join(
        f"report('request_started', request={i}, started_at=now)\nreport('request', request={i}, **answer)\n"
        for i in (1, 2)
    )
    rows = measure(finish + "os.abort()")
    assert rows["status"].to_list() == ["ok"] * 3
    assert "after the last request: the worker was ended by SIGABRT" in rows["disturbed"][0]


def test_a_python_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(supervisor.RefusedError, match="cannot start python9: No such file or directory"):
        supervisor.measure_cell(
            CELL, MODEL, "machine", "stack", tmp_path / "x.parquet", Limits(), python="/nowhere/python9"
        )
