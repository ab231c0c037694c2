"""A curve is left once the memory guard has stopped two lengths in a row; what else was stopped leaves none."""

import json
import os

import polars as pl
import pytest

from speedbump.grid.cells import axes_of, canonical, cell_id, series_id
from speedbump.grid.room import SINCE
from speedbump.measure.left import why_left
from speedbump.tables import REQUESTS, write_table

GUARD = "stopped by the memory guard: swap grew by 1.2 GiB, the limit is 1"
DISK = "stopped by the memory guard: 1.5 GiB of disk free, the limit is 2"
LIMIT = "stopped by the request limit of 60 s"
NO_MORE = "not started: the memory guard stopped 384 and 512 tokens of this curve; -R measures it anyway"


def cell(n_gen, **axes):
    return {"model": "llama-3.2-1b", "device": "mps", "n_gen": n_gen, "warmups": 1, "repeats": 1, "seed": 0, **axes}


@pytest.fixture
def runs(tmp_path):
    """Writes a run of one request; returns its file."""

    def write(n_gen, status="stopped", message=GUARD, **axes):
        own = cell(n_gen, **axes)
        row = {
            **dict.fromkeys(REQUESTS.schema),
            **axes_of(own),
            **{"series": series_id(own, "mac", "stack"), "cell": cell_id(own), "machine": "mac", "stack": "stack"},
            **{"warmups": 1, "repeats": 1, "seed": 0, "request": 0, "phase": "warmup", "lower_bound": False},
            **{"status": status, "message": None if status == "ok" else message},
        }
        file = tmp_path / f"{cell_id(own)}.parquet"
        text = {"speedbump": json.dumps({"cell": json.loads(canonical(own))})}
        write_table(pl.DataFrame([row], schema=REQUESTS.schema), REQUESTS, file, text)
        return file

    return write


def left(tmp_path, n_gen, environment=None, **axes):
    own = cell(n_gen, **axes)
    return why_left(own, tmp_path / f"{cell_id(own)}.parquet", environment or {})


def test_two_stops_in_a_row_leave_the_longer_lengths(tmp_path, runs):
    runs(256, "ok")
    runs(384)
    assert left(tmp_path, 640) is None
    runs(512)
    assert left(tmp_path, 640) == NO_MORE
    assert left(tmp_path, 513) == NO_MORE
    assert left(tmp_path, 512, process=2) == NO_MORE  # the same length in another process
    assert left(tmp_path, 448) is None
    assert left(tmp_path, 128) is None


def test_what_was_left_does_not_hide_the_stops_below_it(tmp_path, runs):
    runs(384)
    runs(512)
    runs(640, "beyond_memory", NO_MORE)
    assert left(tmp_path, 768) == NO_MORE


@pytest.mark.parametrize(
    ("status", "message"), [("ok", None), ("stopped", LIMIT), ("stopped", DISK), ("out_of_memory", "no memory")]
)
def test_a_length_that_ended_otherwise_breaks_the_row(tmp_path, runs, status, message):
    runs(384)
    runs(448, status, message)
    runs(512)
    assert left(tmp_path, 640) is None


def test_a_length_that_finished_in_another_process_was_not_stopped(tmp_path, runs):
    runs(384)
    runs(512)
    runs(512, "ok", process=2)
    assert left(tmp_path, 640) is None


def test_other_curves_leave_nothing(tmp_path, runs):
    for axes in ({"kv_cache": "static"}, {"model": "gpt2"}, {"device": "cpu"}, {"dtype": "float16"}):
        runs(384, **axes)
        runs(512, **axes)
    assert left(tmp_path, 640) is None
    assert left(tmp_path, 640, dtype="float16") == NO_MORE


def test_probes_and_limits_do_not_make_another_curve(tmp_path, runs):
    runs(384, request_limit_s=60.0)
    runs(512, probe={"min_repeats": 1, "max_repeats": 5, "normal_below_s": 1.0, "slow_above_s": 2.0})
    assert left(tmp_path, 640) == NO_MORE


def test_a_run_that_measures_again_counts_its_own_stops_alone(tmp_path, runs):
    os.utime(runs(384), (100, 100))
    os.utime(runs(512), (200, 200))
    assert left(tmp_path, 640, {SINCE: "100"}) == NO_MORE
    assert left(tmp_path, 640, {SINCE: "150"}) is None


def test_a_persistent_process_and_broken_files_leave_nothing(tmp_path, runs):
    runs(384)
    runs(512)
    assert why_left({**cell(None), "sequence": [8, 640]}, tmp_path / "own.parquet", {}) is None
    file = runs(512)
    file.write_bytes(b"no table")
    (tmp_path / f"._{file.name}").write_bytes(b"\x00\x05")
    assert left(tmp_path, 640) is None
