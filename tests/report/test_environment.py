"""The environment section: what is shown of a machine, and what makes its runs unlike one another."""

from pathlib import Path

import polars as pl
import pytest
from simulated import Line, simulate

from speedbump.report.coverage import OWN_SWAP, coverage
from speedbump.report.environment import environment_tables
from speedbump.report.study import read_study
from speedbump.tables import CELLS, read_table, write_table


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """The pairs of a study's one machine, with further keys of its environment and of the entry."""

    def show(environment=(), **entry):
        study = read_study(simulate(tmp_path, [Line()]))
        one = study.environments[0]
        one["environment"] |= dict(environment)
        one |= entry
        ((_, pairs),) = environment_tables(study)[:1]
        return dict(pairs)

    return show


def test_a_macs_hardware_is_shown(shown):
    pairs = shown({"model": "MacBookAir10,1", "gpu_cores": 7, "performance_cores": 4, "gpu_wired_limit_mb": 0})
    assert (pairs["Model"], pairs["GPU cores"], pairs["Performance cores"]) == ("MacBookAir10,1", "7", "4")
    assert pairs["GPU wired limit"] == "the system’s own"
    assert shown({"gpu_wired_limit_mb": 28_000})["GPU wired limit"] == "28000 MB, set by the user"


def test_variables_that_differ_within_a_curve_are_named(shown):
    assert "Differs within a curve" not in shown(mixed={})
    pairs = shown(mixed={"PYTORCH_MPS_FAST_MATH": ["1", None]})
    assert pairs["Differs within a curve"] == "PYTORCH_MPS_FAST_MATH (1 or unset)"


def test_what_was_kept_from_torch_and_a_ballast_that_is_not_locked_are_named(shown):
    pairs = shown({"variables_not_passed_on": {"PYTORCH_MPS_HIGH_WATERMARK_RATIO": "0.0"}, "ballast_locked": False})
    assert pairs["Variables kept from torch"] == "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0"
    assert pairs["Ballast locked in memory"] == "no"
    assert shown(varied={"ballast_locked": [False, True]})["Ballast locked in memory"] == "not in every run"


def test_runs_that_swapped_by_themselves_are_told(tmp_path: Path):
    folder = simulate(tmp_path, [Line()])
    cells = read_table(folder / "cells.parquet", CELLS)
    swapped = pl.when(pl.col("n_gen") > 500).then(3 << 30).otherwise(0)
    write_table(cells.with_columns(own_swap_bytes=swapped.cast(pl.Int64)), CELLS, folder / "cells.parquet")
    reasons = coverage(read_study(folder)).reasons
    assert [(inside, what) for _, inside, what, _ in reasons] == [("512–768 (3)", OWN_SWAP)]
