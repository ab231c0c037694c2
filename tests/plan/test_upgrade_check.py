"""The cells that an upgrade's check measures, and what it says before it starts."""

import json

import polars as pl
import pytest

from speedbump.grid.cells import canonical, cell_id, series_id
from speedbump.grid.estimate import in_words
from speedbump.grid.models import load_models
from speedbump.grid.study import Study, StudyError
from speedbump.plan.refinement_plan import planned_cells
from speedbump.plan.upgrade_check import choose_check, describe_check, keep_check
from speedbump.tables import REQUESTS, write_table

OLD, NEW = "debian-12_torch-2.7.0_transformers-4.57.6", "debian-12_torch-2.13.0_transformers-4.57.6"
MODELS = load_models("tests/models")
STUDY = Study.model_validate({"study": "s", "title": "S", "experiments": [{"name": "scan", "n_gen": [32]}]})


def cell(n_gen, **more):
    return {"model": "tiny", "device": "cpu", "n_gen": n_gen, "warmups": 1, "repeats": 3, "seed": 0, **more}


GRID = {"scan": [cell(n) for n in range(32, 257, 32)]}


@pytest.fixture
def upgraded(tmp_path):
    """A study measured on the old stack: a scan, the probes and confirmations around its regime, and its report."""
    study, runs, plans = tmp_path / "s", tmp_path / "runs" / "m", tmp_path / "plans" / "m"
    series = series_id(GRID["scan"][0], "m", OLD)
    planned = [
        *({"n_gen": n, "process": 1, "warmups": 1, "repeats": 2, "probe": {"min_repeats": 1}} for n in (99, 100, 112)),
        *({"n_gen": n, "process": 2, "warmups": 1, "repeats": 3} for n in (99, 100, 163, 164)),
    ]
    plan = plans / OLD / "scan" / "1.json"
    plan.parent.mkdir(parents=True)
    plan.write_text(json.dumps({"cells": [{"series": series, **entry} for entry in planned]}))
    for number, one in enumerate(planned_cells(GRID["scan"], plans, "m", OLD, "scan"), 1):
        record = {"cell": json.loads(canonical(one)), "wall_s": float(number)}
        file = runs / OLD / f"{cell_id(one)}.parquet"
        write_table(pl.DataFrame(schema=REQUESTS.schema), REQUESTS, file, {"speedbump": json.dumps(record)})
    regime = {
        **{"accepted": True, "confirmed": True, "slowdown": 10.0, "worst_n_gen": 128},
        **{"onset_low": 99, "onset_high": 100, "recovery_low": 163, "recovery_high": 164},
    }
    curve = {
        **{"series": series, "name": "Tiny, CPU", "machine": "m", "stack": OLD, "axes": {}, "verdict": "slow regimes"},
        **{"lengths_measured": {"n_gen_min": 32, "n_gen_max": 256}, "regimes": [regime]},
    }
    (study / "site").mkdir(parents=True)
    (study / "site" / "summary.json").write_text(json.dumps({"curves": [curve]}))
    return study, runs, plans


def budgets(check):
    return [one["n_gen"] for one in check.cells["scan"]]


def test_both_sides_of_each_edge_one_inside_and_normal_ones(upgraded):
    check = choose_check(STUDY, GRID, *upgraded, NEW)
    assert check.reference == OLD
    assert budgets(check) == [32, 96, 99, 100, 128, 163, 164, 192, 256]


def test_every_cell_is_one_that_the_full_run_measures_too_and_none_is_cut_short(upgraded):
    check = choose_check(STUDY, GRID, *upgraded, NEW)
    full = {cell_id(one) for one in check.full["scan"]}
    assert len(full) == 8 + 7
    assert {cell_id(one) for one in check.cells["scan"]} < full
    assert not any("probe" in one for one in check.cells["scan"])
    assert [one["process"] for one in check.cells["scan"] if one["n_gen"] in (99, 100, 163, 164)] == [2] * 4


def test_an_edge_that_only_a_probe_measured_is_measured_by_the_protocol(upgraded):
    study, runs, plans = upgraded
    plan = plans / OLD / "scan" / "1.json"
    entries = [one for one in json.loads(plan.read_text())["cells"] if (one["process"], one["n_gen"]) != (2, 100)]
    plan.write_text(json.dumps({"cells": entries}))
    check = choose_check(STUDY, GRID, study, runs, plans, NEW)
    assert budgets(check) == [32, 96, 99, 100, 128, 163, 164, 192, 256]
    (edge,) = (one for one in check.cells["scan"] if one["n_gen"] == 100)
    assert "probe" not in edge
    assert (edge["warmups"], edge["repeats"]) == (STUDY.protocol.warmups, STUDY.protocol.repeats)


def test_a_study_without_a_regime_is_checked_at_a_few_spread_budgets(upgraded):
    summary = upgraded[0] / "site" / "summary.json"
    summary.write_text(summary.read_text().replace('"accepted": true', '"accepted": false'))
    assert budgets(choose_check(STUDY, GRID, *upgraded, NEW)) == [32, 100, 192, 256]


def test_what_it_costs_is_what_the_same_cells_took(upgraded):
    _, runs, _ = upgraded
    check = choose_check(STUDY, GRID, *upgraded, NEW)
    took = {cell_id(one): number for number, one in enumerate(check.full["scan"], 1)}
    lines = describe_check(check, runs, NEW, MODELS)
    mine = in_words(sum(took[cell_id(one)] for one in check.cells["scan"]))
    assert lines[1] == f"the check: 9 cells, 0 done, about {mine} left"
    assert lines[2].startswith(f"the full run: 15 cells, 0 done, about {in_words(sum(took.values()))} left")


def test_its_cells_are_kept_as_a_plan_that_reads_back(upgraded):
    _, _, plans = upgraded
    check = choose_check(STUDY, GRID, *upgraded, NEW)
    kept = {}
    keep_check(check, plans, "m", NEW, GRID, kept.__setitem__)
    ((plan, text),) = kept.items()
    plan.parent.mkdir(parents=True)
    plan.write_text(text)
    known = {cell_id(one) for one in planned_cells(GRID["scan"], plans, "m", NEW, "scan")}
    assert known == {cell_id(one) for one in [*GRID["scan"], *check.cells["scan"]]}


def test_the_newest_of_the_earlier_stacks_is_the_one_to_check_against(upgraded):
    study, runs, _ = upgraded
    summary = study / "site" / "summary.json"
    (curve,) = json.loads(summary.read_text())["curves"]
    newer, newest = OLD.replace("2.7.0", "2.9.0"), OLD.replace("2.7.0", "2.14.0")
    for stack in (newer, newest):
        (runs / stack).mkdir()
        for file in (runs / OLD).iterdir():
            (runs / stack / file.name).write_bytes(file.read_bytes())
    others = [{**curve, "stack": stack, "series": series_id(GRID["scan"][0], "m", stack)} for stack in (newer, newest)]
    summary.write_text(json.dumps({"curves": [curve, *others]}))
    assert choose_check(STUDY, GRID, *upgraded, NEW).reference == newer


def test_nothing_to_check_against_is_one_line(upgraded):
    study, runs, _ = upgraded
    with pytest.raises(StudyError, match="no earlier stack of the study s is measured on this machine"):
        choose_check(STUDY, GRID, *upgraded, OLD)
    (study / "site" / "summary.json").unlink()
    with pytest.raises(StudyError, match=r"no report in \S+ knows of debian-12_torch-2.7.0"):
        choose_check(STUDY, GRID, *upgraded, NEW)
    (runs / OLD).rename(runs.parent / "gone")
    with pytest.raises(StudyError, match="no earlier stack"):
        choose_check(STUDY, GRID, *upgraded, NEW)


def test_a_study_that_lists_stacks_has_no_check(upgraded):
    stacks = [{"torch": "2.8.0", "transformers": "4.57.6"}]
    listed = Study.model_validate({"study": "s", "title": "S", "stacks": stacks})
    with pytest.raises(StudyError, match="lists its stacks"):
        choose_check(listed, GRID, *upgraded, NEW)


def test_a_series_that_the_earlier_stack_lacks_is_left_to_the_full_run(upgraded):
    grid = {**GRID, "other": [cell(64, n_prompt=5)]}
    check = choose_check(STUDY, grid, *upgraded, NEW)
    assert check.cells["other"] == []
    assert check.notices == [f"other: tiny on cpu has no finished run with {OLD}: left to the full run"]


def test_profiles_are_left_to_the_full_run(upgraded):
    grid = {**GRID, "profile": [cell(64, instrument="profile", harness="loop")]}
    check = choose_check(STUDY, grid, *upgraded, NEW)
    assert check.cells["profile"] == []
    assert check.notices == ["profile: profiles are in no curve: left to the full run"]
