"""Runs read many at once: the same tables and the same faults as one by one."""

import json
import shutil

import polars as pl
import pytest

from speedbump.analyse import runs as reading
from speedbump.analyse.runs import file_beside, read_runs
from speedbump.tables import MEMORY_SAMPLES, REQUESTS, late_values, read_metadata, read_table, write_table

from .test_bundles import write_run


@pytest.fixture
def many(tmp_path):
    """Thirty sound runs, ten of them with memory samples."""
    plain = [write_run(tmp_path, n, e2e_s=float(n)) for n in range(1, 21)]
    memory = [write_run(tmp_path, n, instrument="memory") for n in range(30, 40)]
    return [*plain, *memory]


def rewrite(file, table=REQUESTS, record=None, **columns):
    """Change columns of a run's file, or keys of its record."""
    frame = read_table(file, table).with_columns(**columns)
    known = json.loads(read_metadata(file)["speedbump"])
    write_table(frame, table, file, {"speedbump": json.dumps({**known, **(record or {})})})


SPOILED = {
    "another seed": lambda file: rewrite(file, seed=pl.lit(7)),
    "another series": lambda file: rewrite(file, series=pl.lit("x")),
    "one row of another cell": lambda file: rewrite(file, cell=pl.when(pl.col("request") == 1).then(pl.lit("x"))),
    "a budget of its own": lambda file: rewrite(file, n_gen=pl.lit(77)),
    "no budget": lambda file: rewrite(file, n_gen=pl.lit(None, pl.Int64)),
    "a time that does not pass": lambda file: rewrite(file, e2e_s=pl.lit(0.0)),
    "an unknown status": lambda file: rewrite(file, status=pl.lit("fine")),
    "no environment": lambda file: rewrite(file, record={"environment": None}),
    "a device held backwards in years": lambda file: rewrite(file, record={"held": {"since_s": -1}}),
    "another machine": lambda file: rewrite(file, record={"machine": "other"}),
    "no row": lambda file: read_table(file, REQUESTS).clear().write_parquet(file, metadata=read_metadata(file)),
    "a column less": lambda file: (
        read_table(file, REQUESTS).drop("seed").write_parquet(file, metadata=read_metadata(file))
    ),
    "half a file": lambda file: file.write_bytes(file.read_bytes()[:500]),
    "no file": lambda file: file.unlink(),
    "no record": lambda file: read_table(file, REQUESTS).write_parquet(file),
}


def test_many_sound_runs_are_read_in_their_order(many):
    found = read_runs(many)
    assert found.faults.is_empty()
    assert found.requests.equals(pl.concat(read_table(file, REQUESTS) for file in many))
    samples = pl.concat(read_table(file_beside(file, "memory"), MEMORY_SAMPLES) for file in many[20:])
    assert found.samples.equals(samples)
    assert [record["cell_id"] for record in found.records] == [file.stem for file in many]


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_one_bad_run_among_many_is_named_and_the_rest_is_kept(many, spoil):
    bad = many[7]
    spoil(bad)
    alone, together = read_runs([bad]), read_runs(many)
    assert alone.faults.height == 1
    assert together.faults.equals(alone.faults)
    rest = read_runs([file for file in many if file != bad])
    assert together.requests.equals(rest.requests)
    assert together.samples.equals(rest.samples)
    assert together.records == rest.records


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: rewrite(file, MEMORY_SAMPLES, cell=pl.lit("x")),
        lambda file: rewrite(file, MEMORY_SAMPLES, rss_bytes=pl.lit(-1)),
        lambda file: rewrite(file, MEMORY_SAMPLES, n_gen=pl.lit(7)),
        lambda file: file.unlink(),
    ],
)
def test_samples_that_are_not_their_runs_are_a_fault_of_the_run(many, spoil):
    bad = many[25]
    spoil(file_beside(bad, "memory"))
    together = read_runs(many)
    assert together.faults.equals(read_runs([bad]).faults)
    assert together.faults["file"].to_list() == [str(bad)]
    assert len(together.records) == len(many) - 1


def test_samples_of_another_run_do_not_pass_for_a_runs_own(many):
    shutil.copy2(file_beside(many[22], "memory"), file_beside(many[23], "memory"))
    assert read_runs(many).faults["file"].to_list() == [str(many[23])]


def test_nothing_is_read_one_by_one_where_all_is_sound(many, monkeypatch):
    monkeypatch.setattr(reading, "_read_one", None)
    assert len(read_runs(many).records) == len(many)


@pytest.mark.parametrize("old", [slice(0, 5), slice(5, 12), slice(None)])
def test_runs_from_before_a_late_column_are_read_together_with_later_ones(many, old, monkeypatch):
    whole = read_runs(many)
    late = [*late_values(REQUESTS)]
    assert {"compile", "host_sentinel_before_s"} <= {*late}
    for file in many[old]:
        read_table(file, REQUESTS).drop(late).write_parquet(file, metadata=read_metadata(file))
    monkeypatch.setattr(reading, "_read_one", None)
    assert read_runs(many).requests.equals(whole.requests)


def test_more_runs_than_are_read_at_once(many, monkeypatch):
    whole = read_runs(many)
    monkeypatch.setattr(reading, "AT_ONCE", 7)
    parts = read_runs(many)
    assert parts.requests.equals(whole.requests)
    assert parts.records == whole.records
