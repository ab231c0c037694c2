"""The best that the sentinels ever took: of every run beside, and no others; from notes that may be lost."""

import json

import polars as pl
import pytest

from speedbump.measure.best import NOTES, find_best
from speedbump.tables import REQUESTS, write_table


def write_run(folder, number, device="cpu", protocol=1, **sentinels):
    row = dict.fromkeys(REQUESTS.schema) | {"device": device, **sentinels}
    file = folder / f"gpt2.{device}.8.{number:012x}.parquet"
    record = {"cell": {"device": device}, "protocol": protocol}
    table = pl.DataFrame([row], schema=REQUESTS.schema)
    write_table(table, REQUESTS, file, {"speedbump": json.dumps(record)})
    return file


@pytest.fixture
def runs(tmp_path):
    write_run(tmp_path, 1, sentinel_before_s=0.05, sentinel_after_s=0.04, host_sentinel_before_s=0.02)
    write_run(tmp_path, 2, sentinel_before_s=0.03, sentinel_after_s=0.09)
    write_run(tmp_path, 3, device="cuda", sentinel_before_s=0.001)
    write_run(tmp_path, 4, protocol=2, sentinel_before_s=0.002)
    write_run(tmp_path, 5)
    return tmp_path


BEST = {"cpu": {"sentinel": 0.03, "host_sentinel": 0.02}, "cuda": {"sentinel": 0.001}}


def test_devices_and_protocols_are_kept_apart(runs):
    assert find_best(runs, 1) == BEST
    assert find_best(runs, 2) == {"cpu": {"sentinel": 0.002}}
    assert find_best(runs / "none", 1) == {}


def test_a_table_from_before_the_hosts_sentinel_counts(runs):
    old = write_run(runs, 6)
    record = {"speedbump": json.dumps({"cell": {"device": "cpu"}, "protocol": 1})}
    pl.DataFrame({"n_gen": [8], "sentinel_before_s": [0.01]}).write_parquet(old, metadata=record)
    assert find_best(runs, 1)["cpu"]["sentinel"] == 0.01


def test_only_runs_that_changed_are_opened_again(runs, monkeypatch):
    find_best(runs, 1)
    kept = pl.scan_parquet
    opened = []
    monkeypatch.setattr(pl, "scan_parquet", lambda files, **options: opened.extend(files) or kept(files, **options))
    assert find_best(runs, 1) == BEST
    assert opened == []
    changed = write_run(runs, 2, sentinel_before_s=0.0123)
    assert find_best(runs, 1)["cpu"]["sentinel"] == 0.0123
    assert opened == [changed]


def test_a_run_that_is_gone_is_forgotten(runs):
    find_best(runs, 1)
    (runs / f"gpt2.cpu.8.{2:012x}.parquet").unlink()
    assert find_best(runs, 1)["cpu"]["sentinel"] == 0.04


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}', '{"a": {"stamp": [1], "sentinel": -1.0}}'])
def test_broken_notes_are_made_anew(runs, content):
    (runs / NOTES).write_text(content)
    assert find_best(runs, 1) == BEST


def test_what_cannot_be_read_spoils_nothing(runs):
    (runs / f"gpt2.cpu.8.{9:012x}.parquet").write_bytes(b"PAR1")
    (runs / f"gpt2.cpu.8.{9:012x}.memory.parquet").write_bytes(b"PAR1")
    assert find_best(runs, 1) == BEST


def test_a_folder_that_cannot_be_written_is_read_all_the_same(runs, monkeypatch):
    monkeypatch.setattr("pathlib.Path.write_text", lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert find_best(runs, 1) == BEST
    assert not (runs / NOTES).exists()
