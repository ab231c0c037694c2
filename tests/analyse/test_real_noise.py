"""Recorded curves that must give no regime.

data/busy_cpu.csv: a decoder of 6 layers and width 256 with a growing cache, PyTorch, one thread, float32, random
weights; 5 requests after one warm-up, budgets in random order, three processes one after the other, on 2 cores of
an AMD EPYC whose other work kept the load between 4 and 7. Neighbouring budgets differ by up to four times.
data/busy_distilgpt2.parquet: requests of this pipeline on the same busy machine: DistilGPT-2, random weights, 10
budgets of two requests after one warm-up, the fixed workload before and after each cell, one round of refinement.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from speedbump.analyse.csv_table import read_csv_curves
from speedbump.analyse.curve import Curve, read_curves
from speedbump.analyse.regimes import find_regimes
from speedbump.analyse.segments import dissect
from speedbump.analyse.verdict import judge
from speedbump.tables import REQUESTS, read_table

DATA = Path(__file__).parent / "data"


@pytest.mark.parametrize("processes", [[0, 1], [1, 2], [0, 2], [0, 1, 2]], ids=str)
def test_processes_on_a_busy_cpu(processes):
    curve = read_csv_curves(DATA / "busy_cpu.csv")["busy"]
    repeats = tuple(tuple(own[p] for p in processes) for own in curve.repeats)
    anatomy = dissect(Curve(curve.budget, repeats, curve.bound, curve.n_stopped, curve.stops, curve.disturbed))
    assert anatomy.accepted == ()
    assert judge(anatomy).verdict == "undetermined"
    assert "busy" in judge(anatomy).reason


def test_the_fixed_workload_tells_of_a_busy_cpu():
    requests = read_table(DATA / "busy_distilgpt2.parquet", REQUESTS)
    found = find_regimes(requests)
    assert not found.regimes["accepted"].any()
    assert "busy" in found.series["reason"].item()
    # without it and what was flagged, two neighbouring budgets look slow
    unseen = requests.with_columns(sentinel_before_s=pl.lit(None, pl.Float64), disturbed=pl.lit(None, pl.String))
    assert find_regimes(unseen).regimes["accepted"].any()


def test_the_recorded_sentinel_varies():
    ((_, curve),) = read_curves(read_table(DATA / "busy_distilgpt2.parquet", REQUESTS))
    assert np.exp(curve.unrest) > 1.5
