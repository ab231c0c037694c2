"""The supervisor with a stand-in for the worker that needs no torch, and can do what a real one only seldom does."""

import contextlib
import json
import tempfile
from pathlib import Path

import pytest

from speedbump.grid.models import load_model
from speedbump.grid.study import Limits
from speedbump.measure import guard, process, supervisor
from speedbump.measure.lock import Slot
from speedbump.measure.system import Memory
from speedbump.tables import REQUESTS, read_metadata, read_table

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

    def measure(ending, limits=None, log=None, read=lambda out: read_table(out, REQUESTS), **cell):
        worker = tmp_path / "worker.py"
        worker.write_text(STAND_IN + ending)
        monkeypatch.setattr(process, "WORKER", worker)
        out = tmp_path / "cell.parquet"
        supervisor.measure_cell({**CELL, **cell}, MODEL, "machine", "stack", out, limits or Limits(), log=log)
        return read(out)

    return measure


def test_a_worker_that_hangs_is_timed_out(measure):
    rows = measure("time.sleep(600)", Limits(cell_limit_s=1.0))
    assert rows["status"].to_list() == ["ok", "timed_out", "not_run"]
    assert rows["message"][1] == "the cell's limit of 1 s passed"
    assert not rows["lower_bound"].any()


def test_the_memory_guard_stops_a_request_and_keeps_its_time(measure, monkeypatch):
    looks = iter([None, None, None])
    monkeypatch.setattr(guard.Watch, "breach", lambda _: next(looks, "swap grew by 9.0 GiB, the limit is 4"))
    rows = measure("time.sleep(600)")
    assert rows["status"].to_list() == ["ok", "stopped", "not_run"]
    assert rows["lower_bound"].to_list() == [False, True, False]
    assert rows["e2e_s"][1] > 0
    assert rows["message"][1] == "stopped by the memory guard: swap grew by 9.0 GiB, the limit is 4"


def test_the_guard_counts_what_all_processes_of_a_cell_swap_out(measure, monkeypatch, tmp_path):
    started = tmp_path / "started"
    started.touch()

    def read():
        return Memory(64 * guard.GIB, 50 * guard.GIB, 3 * guard.GIB * len(started.read_text()))

    monkeypatch.setattr(supervisor, "read_system", read)
    begin = f"with open({str(started)!r}, 'a') as file:\n    file.write('x')\n"
    stay = "if json.loads(sys.stdin.readline())['stays']:\n    report('done')\ntime.sleep(600)"
    rows = measure(begin + stay, Limits(cell_limit_s=20), predecessor="running")
    assert "stopped by the memory guard: swap grew by 6.0 GiB, the limit is 4" in rows["message"]


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


FAULT = """print("Error: command buffer exited with error status.", file=sys.stderr, flush=True)
print("\\tCaused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)", file=sys.stderr, flush=True)
"""
SAID = (
    "a GPU command failed unnoticed by torch: "
    "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)"
)
ANSWER = "report('request_started', request={0}, started_at=now)\nreport('request', request={0}, **answer)\n"


@pytest.fixture
def short_reach(monkeypatch):
    """What Metal prints is of the request in flight, or of one that was answered within the last 0.2 s."""
    monkeypatch.setattr(supervisor, "LATE_S", 0.2)


def test_a_fault_that_torch_swallows_spoils_its_request_and_ends_the_process(measure, short_reach):
    """As it is on a Mac: the request is answered as if nothing had been, and so would all be that follow."""
    rest = "report('request', request=1, **answer)\n" + ANSWER.format(2) + "report('done')\n"
    rows = measure("time.sleep(1)\n" + FAULT + "time.sleep(0.05)\n" + rest)
    assert rows["status"].to_list() == ["ok", "device_lost", "not_run"]
    assert rows["message"].to_list() == [None, SAID, "not started: an earlier request was device_lost"]
    assert not rows["lower_bound"].any()


def test_a_fault_that_is_printed_late_spoils_the_request_that_was_just_answered(measure):
    rows = measure("report('request', request=1, **answer)\n" + "time.sleep(0.5)\n" + FAULT + "time.sleep(600)")
    assert rows["status"].to_list() == ["device_lost", "device_lost", "not_run"]
    assert rows["e2e_s"][1] == 1.0


def test_a_fault_in_the_last_request_is_seen_although_the_worker_is_done(measure, short_reach):
    last = "report('request_started', request=2, started_at=now)\ntime.sleep(0.5)\n"
    end = "report('request', request=2, **answer)\nreport('done')\nos._exit(0)\n"
    rows = measure("report('request', request=1, **answer)\n" + last + FAULT + end)
    assert rows["status"].to_list() == ["ok", "ok", "device_lost"]
    assert rows["disturbed"][0] is None or "after the last request" not in rows["disturbed"][0]


def test_a_gpu_without_memory_is_out_of_memory(measure):
    said = "Execution of the command buffer was aborted due to an error during execution. Insufficient Memory"
    fault = f"print('{said} (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)', flush=True)\n"
    assert measure(fault + "time.sleep(600)")["status"].to_list()[1:] == ["out_of_memory", "not_run"]


def test_other_tokens_than_the_same_requests_before_are_no_latency(measure):
    wrong = "report('request', request=1, **{**answer, 'tokens_hash': '1'})\n"
    rows = measure(wrong + ANSWER.format(2) + "report('done')\n")
    assert rows["status"].to_list() == ["inconsistent"] * 3
    assert rows["message"][2] == "2 different outputs in 3 requests of this length"


def test_what_is_printed_is_read_without_moving_where_the_worker_writes(measure, tmp_path):
    """The worker's output is one open file: a seek of the supervisor's would make it write over what is there."""
    prints = "for i in range(200):\n    print('line', i, flush=True)\n    time.sleep(0.002)\n"
    log = tmp_path / "worker.log"
    measure(prints + "sys.exit(3)", log=log)
    assert log.read_text().split("\n") == [*(f"line {i}" for i in range(200)), ""]


def test_swap_that_the_cell_itself_needs_is_its_result(measure, monkeypatch, tmp_path):
    """The stand-in says that it holds 7 GiB of a machine with 8, of which 6 were free; swap grows meanwhile."""
    grown = tmp_path / "grown"
    gib = guard.GIB

    def read():
        return Memory(8 * gib, 6 * gib, gib // 2 * grown.exists())

    monkeypatch.setattr(supervisor, "read_system", read)
    monkeypatch.setattr(supervisor, "settle_memory", lambda: Memory(8 * gib, 6 * gib + gib // 2, gib // 2))
    swap = f"open({str(grown)!r}, 'w')\ntime.sleep(0.6)\n"
    answers = f"answer['footprint_bytes'] = {7 * gib}\nreport('request', request=1, **answer)\n"
    rows = measure(swap + answers + ANSWER.format(2) + "report('done')\n")
    assert rows["own_swap_bytes"].to_list() == [gib // 2] * 3
    assert "swap" not in (rows["disturbed"][0] or "")


def test_swap_of_others_disturbs(measure, monkeypatch):
    gib = guard.GIB
    before = Memory(64 * gib, 60 * gib, 0)
    monkeypatch.setattr(supervisor, "read_system", lambda: before)
    monkeypatch.setattr(supervisor, "settle_memory", lambda: Memory(64 * gib, 60 * gib, gib))
    rows = measure("report('request', request=1, **answer)\n" + ANSWER.format(2) + "report('done')\n")
    assert "swap grew by 1024 MiB" in rows["disturbed"][0]
    assert rows["own_swap_bytes"].to_list() == [0] * 3


@pytest.mark.parametrize("axes", [{}, {"watermark": "low_0.8"}])
def test_ratios_of_the_users_shell_reach_no_worker(measure, monkeypatch, tmp_path, axes):
    monkeypatch.setenv("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "0.0")
    monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", "1")
    seen = tmp_path / "seen"
    write = f"json.dump({{k: v for k, v in os.environ.items() if 'MPS' in k}}, open({str(seen)!r}, 'w'))\n"
    out = measure(write + "sys.exit(3)", Limits(allow_watermark=True), read=lambda out: out, **axes)
    asked = {"PYTORCH_MPS_LOW_WATERMARK_RATIO": "0.8"} if axes else {}
    assert json.loads(seen.read_text()) == {"PYTORCH_MPS_FAST_MATH": "1", **asked}
    environment = json.loads(read_metadata(out)["speedbump"])["environment"]
    assert environment["variables_not_passed_on"] == {"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.0"}


def test_sleep_is_held_off_before_the_first_wait(measure, monkeypatch):
    order = []

    @contextlib.contextmanager
    def awake():
        order.append("awake")
        yield
        order.append("asleep")

    def find_slots():
        order.append("looks for a device")
        return [Slot("only")]

    monkeypatch.setattr(supervisor, "stay_awake", awake)
    monkeypatch.setattr(supervisor, "find_slots", find_slots)
    monkeypatch.setattr(supervisor, "wait_until_cool", lambda notice: order.append("waits until it is cool"))
    measure("sys.exit(3)")
    assert order == ["awake", "looks for a device", "waits until it is cool", "asleep"]


def test_a_python_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(supervisor.RefusedError, match="cannot start python9: No such file or directory"):
        supervisor.measure_cell(
            CELL, MODEL, "machine", "stack", tmp_path / "x.parquet", Limits(), python="/nowhere/python9"
        )
