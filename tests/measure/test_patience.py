"""A cell that waits for a quiet machine: until the sentinels are near their best, or its patience is over."""

import io
import json
import tempfile
from pathlib import Path

import polars as pl
import pytest

from speedbump.grid.models import load_model
from speedbump.grid.protocol import PROTOCOL
from speedbump.grid.study import Limits, StudyError, read_study
from speedbump.measure import process, supervisor, worker
from speedbump.measure.companions import companions_of
from speedbump.measure.plan import plan_requests
from speedbump.measure.progress import Progress
from speedbump.tables import REQUESTS, read_metadata, read_table, write_table

MODEL = load_model(Path(__file__).parents[1] / "models" / "tiny.yaml")
CELL = {"model": "tiny", "device": "cpu", "n_gen": 8, "warmups": 0, "repeats": 1, "seed": 1}


class Clock:
    """A clock that only sleeping moves, and a session whose sentinels take ``times`` in turn, the last for ever."""

    def __init__(self, monkeypatch, *times):
        self.now_s, self.times, self.events = 0.0, list(times), []
        monkeypatch.setattr(worker.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(worker.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now_s += seconds

    def time_sentinels(self):
        device_s, host_s = self.times.pop(0) if len(self.times) > 1 else self.times[0]
        return {"device_s": device_s, "host_s": host_s}

    def wait(self, seconds, **best):
        near = {"device_s": 1.3, "host_s": 1.7}
        patience = {"seconds": seconds, "every_s": 2.0, "near": near, "best": best}
        worker._wait_until_quiet(patience, self, lambda event, **content: self.events.append((event, content)))
        return self.now_s


def test_it_waits_until_both_sentinels_are_near_their_best(monkeypatch):
    clock = Clock(monkeypatch, (0.3, 0.02), (0.05, 0.05), (0.06, 0.02))
    assert clock.wait(600, device_s=0.05, host_s=0.02) == 4.0
    waits = [content for event, content in clock.events if event == "waiting"]
    assert [round(wait["slowed"], 2) for wait in waits] == [6.0, 2.5, 1.2]
    assert clock.events[-1] == ("sentinels", {"when": "before", "device_s": 0.06, "host_s": 0.02})


def test_its_patience_ends(monkeypatch):
    clock = Clock(monkeypatch, (0.3, 0.02))
    assert clock.wait(7, device_s=0.05, host_s=0.02) == 7.0


def test_without_a_best_the_first_is_the_best(monkeypatch):
    assert Clock(monkeypatch, (0.3, 0.02)).wait(600) == 0.0


STAND_IN = """
import json, os, sys, time
reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)
patience = json.loads(sys.stdin.readline())["patience"]
now = "2026-01-01T00:00:00+00:00"
memory = dict.fromkeys(["torch_current_bytes", "torch_driver_bytes", "footprint_bytes"])
memory |= dict.fromkeys(["rss_bytes", "system_used_bytes", "swap_used_bytes"], 1)
answer = dict(started_at=now, start_s=0.0, end_s=1.0, ttft_s=0.5, e2e_s=1.0, n_tokens=8, finite=True, samples=[],
              tokens_hash="0", distinct_tokens=8, step_s=None, **memory)
def report(event, **content):
    reports.write(json.dumps(dict(event=event, **content)) + "\\n")
report("ready", attention_ran="sdpa")
report("sentinels", when="before", device_s=0.5, host_s=0.1)
if patience["seconds"]:
    report("waiting", waited_s=patience["seconds"], slowed=patience["best"].get("device_s", 1.0) / 0.01)
    report("sentinels", when="before", device_s=0.06, host_s=0.02)
report("request_started", request=0, started_at=now)
report("request", request=0, **answer)
report("sentinels", when="after", device_s=0.06, host_s=0.02)
report("done")
"""


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measures a cell with a worker that says it waited as long as it may; its rows and its record."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stand_in = tmp_path / "worker.py"
    stand_in.write_text(STAND_IN)
    monkeypatch.setattr(process, "WORKER", stand_in)

    def measure(**limits):
        out = tmp_path / "tiny.cpu.8.0123456789ab.parquet"
        supervisor.measure_cell(CELL, MODEL, "machine", "stack", out, Limits(allow_battery=True, **limits))
        return read_table(out, REQUESTS), json.loads(read_metadata(out)["speedbump"])

    return measure


def test_the_wait_is_recorded_and_is_no_part_of_the_cells_time(measure):
    rows, record = measure(patience_s=50.0)
    assert rows.select("status", "sentinel_before_s").row(0) == ("ok", 0.06)
    assert record["waited_s"] == 50
    assert record["wall_s"] == 0, "the stand-in says that it waited longer than it took"


def test_nobody_waits_unless_asked_to(measure):
    rows, record = measure()
    assert rows["sentinel_before_s"].item() == 0.5
    assert record["waited_s"] == 0


def test_a_wait_is_told_once_where_the_output_does_not_change():
    stream = io.StringIO()
    progress = Progress(CELL, [8], stream)
    for waited_s in (0.1, 2.0, 4.0):
        progress.show_wait(waited_s, 12.0)
    line = "tiny on cpu, 8 tokens: waiting for a quiet machine, the fixed workload takes 12.0 times its best"
    assert stream.getvalue().splitlines()[1:] == [line]


def test_it_never_waits_beyond_the_cells_limit(tmp_path):
    assert supervisor.patience_of(CELL, Limits(patience_s=900.0, cell_limit_s=60.0), tmp_path)["seconds"] == 60
    assert supervisor.patience_of(CELL, Limits(), tmp_path) == {"seconds": 0}


def test_what_quiet_is_comes_from_the_runs_beside_it(tmp_path):
    row = dict.fromkeys(REQUESTS.schema) | {"sentinel_before_s": 0.05, "host_sentinel_after_s": 0.01}
    record = {"speedbump": json.dumps({"cell": {"device": "cpu"}, "protocol": PROTOCOL})}
    file = tmp_path / "gpt2.cpu.8.0123456789ab.parquet"
    write_table(pl.DataFrame([row], schema=REQUESTS.schema), REQUESTS, file, record)
    best = supervisor.patience_of(CELL, Limits(patience_s=1.0), tmp_path)["best"]
    assert best == {"device_s": 0.05, "host_s": 0.01}


def test_a_predecessor_does_not_wait(tmp_path):
    cell = {**CELL, "predecessor": "running"}
    plan = plan_requests(cell)
    task = supervisor.make_task(cell, MODEL, plan, tmp_path / "x.parquet", Limits())
    ((_, task),) = companions_of(cell, task, plan)
    assert task["patience"] == {"seconds": 0}


STUDY = {"study": "s", "title": "S", "experiments": [{"name": "e", "model": "gpt2", "device": "cpu", "n_gen": 8}]}


def test_a_call_may_say_how_patient(tmp_path):
    assert read_study(STUDY, "s.yaml").limits.patience_s == 0
    assert read_study({**STUDY, "patience_s": 600}, "s.yaml").limits.patience_s == 600
    assert read_study({**STUDY, "limits": {"patience_s": 5}}, "s.yaml").limits.patience_s == 5
    with pytest.raises(StudyError, match="patience_s"):
        read_study({**STUDY, "patience_s": "long"}, "s.yaml")
