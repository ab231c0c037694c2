"""Runs from before it was measured whose swap it was: read by the counters that they have."""

import polars as pl
import pytest

from speedbump.analyse.environments import describe_environments
from speedbump.analyse.own_swap import with_own_swap
from speedbump.analyse.runs import read_runs
from speedbump.tables import REQUESTS, mark_inconsistent

from .test_bundles import write_run
from .test_runs import rewrite

GIB = 2**30
RECORD = {"machine": "m", "stack": "s", "cell_id": "c", "environment": {"memory_bytes": 36 * GIB}}


def run(footprint_gb=(26, 26), used_gb=(33, 33), swap_gb=(2, 2), disturbed="swap grew by 2048 MiB", **columns):
    """Two requests of one old run on a Mac of 36 GiB, with the counters read after each."""
    counters = zip(footprint_gb, used_gb, swap_gb, strict=True)
    rows = [
        {
            **dict.fromkeys(REQUESTS.schema),
            **{"machine": "m", "stack": "s", "cell": "c", "device": "mps", "request": i, "disturbed": disturbed},
            "footprint_bytes": None if footprint is None else footprint * GIB,
            "rss_bytes": GIB,
            "torch_driver_bytes": 20 * GIB,
            "system_used_bytes": used * GIB,
            "swap_used_bytes": swap * GIB,
            **columns,
        }
        for i, (footprint, used, swap) in enumerate(counters)
    ]
    return pl.DataFrame(rows, schema=REQUESTS.schema)


def told(requests, records=(RECORD,)):
    found = with_own_swap(requests, records)
    assert found.schema == REQUESTS.schema
    assert found.drop("disturbed", "own_swap_bytes").equals(requests.drop("disturbed", "own_swap_bytes"))
    return found.select("disturbed", "own_swap_bytes").unique().row(0)


def test_swap_of_a_worker_that_needed_nearly_all_is_its_own():
    assert told(run()) == (None, 2 * GIB)


@pytest.mark.parametrize(
    "requests",
    [
        run(footprint_gb=(2, 2), used_gb=(9, 9), torch_driver_bytes=GIB),
        run(footprint_gb=(20, 20), used_gb=(22, 30), swap_gb=(0, 2)),
        run(system_used_bytes=None),
        run(disturbed="swap grew by 2048 MiB; other processes used 40% of the cores"),
        run(disturbed="after the last request: swap grew by 2048 MiB"),
    ],
    ids=["it fits", "others grew", "no counters", "another reason too", "other words"],
)
def test_what_the_record_cannot_tell_stays_flagged(requests):
    assert told(requests) == (requests["disturbed"][0], None)


def test_a_record_without_the_machines_memory_cannot_tell():
    assert told(run(), [{**RECORD, "environment": {}}])[0] == "swap grew by 2048 MiB"


def test_a_new_run_is_not_judged_again():
    assert told(run(own_swap_bytes=0)) == ("swap grew by 2048 MiB", 0)


def test_old_runs_are_read_so_from_their_files(tmp_path):
    file = write_run(tmp_path, 512)
    counters = {
        "footprint_bytes": pl.lit(26 * GIB),
        "system_used_bytes": pl.lit(33 * GIB),
        "swap_used_bytes": pl.lit(0),
        "disturbed": pl.lit("swap grew by 900 MiB"),
    }
    rewrite(file, record={"environment": {"memory_bytes": 36 * GIB}}, **counters)
    requests = read_runs([file]).requests
    assert requests.select("disturbed", "own_swap_bytes").unique().row(0) == (None, 900 << 20)


def test_old_runs_with_different_tokens_are_inconsistent(tmp_path):
    file = write_run(tmp_path, 512)
    rewrite(file, tokens_hash=pl.col("request").cast(pl.String))
    assert read_runs([file]).requests["status"].to_list() == ["inconsistent"] * 2


def test_only_requests_of_one_process_and_length_must_agree():
    rows = [
        {"cell": "a", "n_gen": 8, "status": "ok", "tokens_hash": "x"},
        {"cell": "a", "n_gen": 8, "status": "ok", "tokens_hash": "x"},
        {"cell": "a", "n_gen": 8, "status": "killed", "tokens_hash": None},
        {"cell": "a", "n_gen": 16, "status": "ok", "tokens_hash": "y"},
        {"cell": "a", "n_gen": 16, "status": "invalid", "tokens_hash": "z"},
        {"cell": "b", "n_gen": 8, "status": "ok", "tokens_hash": "w"},
        {"cell": "b", "n_gen": 8, "status": "ok", "tokens_hash": None},
    ]
    table = requests_of(rows, "float32")
    assert mark_inconsistent(table).equals(table)


def test_in_half_precision_requests_need_not_agree():
    rows = [{"cell": "a", "n_gen": 8, "status": "ok", "tokens_hash": tokens} for tokens in ("x", "y")]
    for dtype, status in {"float32": "inconsistent", "float16": "ok", "bfloat16": "ok"}.items():
        assert mark_inconsistent(requests_of(rows, dtype))["status"].to_list() == [status] * 2


def requests_of(rows, dtype):
    blank = dict.fromkeys(REQUESTS.schema) | {"dtype": dtype}
    return pl.DataFrame([blank | row for row in rows], schema=REQUESTS.schema)


def environment(n_gen, process=1, **variables):
    cell = {"model": "gpt2", "device": "mps", "n_gen": n_gen, "process": process, "warmups": 0, "repeats": 2, "seed": 0}
    return {"cell": cell, "machine": "m", "stack": "s", "environment": {"variables": variables}}


def test_variables_that_differ_within_a_series_are_told():
    (entry,) = describe_environments(
        [environment(128, OMP_NUM_THREADS="2"), environment(256, OMP_NUM_THREADS="2", PYTORCH_MPS_FAST_MATH="1")]
    )
    assert entry["mixed"] == {"PYTORCH_MPS_FAST_MATH": ["1", None]}


def test_series_that_differ_only_from_one_another_are_not():
    other = environment(128, PYTORCH_MPS_FAST_MATH="1")
    other["cell"]["n_prompt"] = 9
    (entry,) = describe_environments([environment(128), environment(256), other])
    assert entry["mixed"] == {}
    assert "variables" in entry["varied"]
