"""What is said before work starts: counts, time left, memory; and what a cell reads of the others."""

import json
import math
from pathlib import Path

import polars as pl
import pytest

from speedbump.grid.cells import canonical, cell_id
from speedbump.grid.estimate import START_S, estimate_s, guess_s, in_words, measured_scale, read_records
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models
from speedbump.grid.study import read_study
from speedbump.plan import worklist
from speedbump.plan.worklist import describe_work, existing, find_fitting, memory_warnings, survey_runs, write_work
from speedbump.tables import REQUESTS, write_table

ROOT = Path(__file__).parents[2]
MODELS = load_models(ROOT / "config" / "models")
EVERYTHING = {"cpu": True, "mps": True, "cuda": True}


def cells(**axes):
    experiment = {"name": "scan", "model": "gpt2-medium", "device": "cpu", "n_gen": "128-512+128", **axes}
    study = {"study": "s", "title": "S", "protocol": {"warmups": 1, "repeats": 2}, "experiments": [experiment]}
    return expand_study(read_study(study, "x.yaml"), "x.yaml", MODELS, lambda: EVERYTHING).cells["scan"]


def measure(folder, cell, wall_s):
    """A run file whose record says how long the cell took."""
    record = {"cell": json.loads(canonical(cell)), "wall_s": wall_s}
    table = pl.DataFrame(schema=REQUESTS.schema)
    write_table(table, REQUESTS, folder / f"{cell_id(cell)}.parquet", {"speedbump": json.dumps(record)})


def describe(folder, **grid):
    """The lines about experiments whose run files lie in ``folder``."""
    files = {name: [f"{folder}/{cell_id(cell)}.parquet" for cell in cells] for name, cells in grid.items()}
    survey = survey_runs([file for of_one in files.values() for file in of_one], MODELS)
    return describe_work(grid, files, survey, MODELS)


def test_a_guess_until_something_is_measured_then_what_the_machine_takes(tmp_path):
    scan = cells()
    (line,) = describe(tmp_path, scan=scan)
    assert line.startswith("scan: 4 cells, 0 done, about ")
    assert "(a guess)" in line
    measure(tmp_path, scan[0], 3 * guess_s(scan[0], MODELS["gpt2-medium"]))
    (line,) = describe(tmp_path, scan=scan)
    left = 3 * sum(guess_s(cell, MODELS["gpt2-medium"]) for cell in scan[1:])
    assert line == f"scan: 4 cells, 1 done, about {in_words(left)} left (from cells measured here)"


def test_a_finished_experiment_says_so_and_an_empty_one_nothing(tmp_path):
    scan = cells(n_gen=128)
    measure(tmp_path, scan[0], 20.0)
    assert describe(tmp_path, scan=scan, none=[]) == ["scan: 1 cell, 1 done"]


def test_on_mps_the_time_if_all_were_slow_is_said_too(tmp_path):
    line = describe(tmp_path, scan=cells(device="mps", n_gen=128))[0]
    assert line.endswith("if all were 20x slow")


def test_guesses_grow_with_model_budget_and_a_missing_cache():
    def seconds(**axes):
        (cell,) = cells(**{"n_gen": 512, **axes})
        return guess_s(cell, MODELS[cell["model"]]) - START_S

    assert seconds() == pytest.approx(2 * seconds(n_gen=256), rel=0.1)
    assert seconds(model="gpt2-large") > 1.5 * seconds()
    assert seconds(kv_cache="off") > 3 * seconds()


def test_a_request_limit_bounds_the_guess():
    (cell,) = cells(n_gen=512)
    model = MODELS["gpt2-medium"]
    assert guess_s({**cell, "request_limit_s": 1.0}, model) == START_S + 3 * 1.0
    assert guess_s({**cell, "request_limit_s": 1.0, "instrument": "profile"}, model) == START_S + 2 * 1.0


def test_records_of_unknown_models_and_devices_do_not_mislead():
    (cell,) = cells(n_gen=128)
    model = MODELS["gpt2-medium"]
    scale = measured_scale([{"cell": {**cell, "model": "gone"}, "wall_s": 1e9}], MODELS)
    assert scale == {}
    assert estimate_s(cell, model, {"mps": 50.0}) == guess_s(cell, model)


def test_cells_that_may_need_too_much_memory_are_named():
    found = memory_warnings(cells(device=["cpu", "mps"]), MODELS, 24 * 2**30)
    (line,) = found
    assert line.startswith("gpt2-medium on mps: 1 cell, from 512 tokens up, may need as much as 31 GiB")


def test_a_cell_reads_how_many_there_are_and_how_long_they_take(tmp_path):
    scan = cells()
    file = tmp_path / "lists" / "work.json"
    known = {str(tmp_path / f"{cell_id(cell)}.parquet"): canonical(cell) for cell in scan}
    write_work(file, known, survey_runs(known, MODELS), MODELS)
    listed = json.loads(file.read_text())
    assert [entry["file"] for entry in listed] == list(known)
    assert all(entry["estimate_s"] > START_S for entry in listed)


def test_no_list_is_written_when_nothing_is_left(tmp_path):
    (scan,) = [cells(n_gen=128)]
    measure(tmp_path, scan[0], 20.0)
    known = {str(tmp_path / f"{cell_id(cell)}.parquet"): canonical(cell) for cell in scan}
    write_work(tmp_path / "work.json", known, survey_runs(known, MODELS), MODELS)
    assert not (tmp_path / "work.json").exists()


def test_the_speed_is_read_from_a_bounded_sample_of_each_device(tmp_path, monkeypatch):
    monkeypatch.setattr(worklist, "SAMPLE", 2)
    scan = [*cells(n_gen="128-512+128"), *cells(device="mps", n_gen="128-512+128")]
    for cell in scan[1:]:
        measure(tmp_path, cell, 3 * guess_s(cell, MODELS["gpt2-medium"]))
    read = []

    def noted(files):
        read.extend(files)
        return read_records(read)

    monkeypatch.setattr(worklist, "read_records", noted)
    survey = survey_runs([str(tmp_path / f"{cell_id(cell)}.parquet") for cell in scan], MODELS)
    assert survey.scale == pytest.approx({"cpu": 3.0, "mps": 3.0})
    assert sorted(file.name.split(".")[1] for file in read) == ["cpu", "cpu", "mps", "mps"]


def test_only_files_that_are_there_exist(tmp_path):
    there = tmp_path / "a" / "x.parquet"
    there.parent.mkdir()
    there.touch()
    elsewhere = [str(tmp_path / "a" / "y.parquet"), str(tmp_path / "none" / "x.parquet")]
    assert existing([str(there), *elsewhere]) == {str(there)}


@pytest.mark.parametrize(("seconds", "words"), [(40.2, "40 s"), (720, "12 min"), (12600, "3.5 h")])
def test_seconds_in_words(seconds, words):
    assert in_words(seconds) == words


def test_what_would_fit_is_kept_for_the_page():
    cells = [{"model": "gpt2", "device": device, "n_gen": n_gen} for device in ("mps", "cuda") for n_gen in (128, 384)]
    found = find_fitting(cells, MODELS, 8 * 2**30)
    assert list(found) == ["gpt2 mps float32"]
    assert 128 < found["gpt2 mps float32"]["longest"] < 384
    assert found["gpt2 mps float32"]["instead"][0] == {"model": "gpt2", "title": "GPT-2", "dtype": "float16"}
    assert find_fitting(cells, MODELS, math.inf) == {}
