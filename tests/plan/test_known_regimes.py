"""Known regimes: read from a report's summary, and the budgets that decide whether they are still there."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedbump.grid.study import StudyError
from speedbump.plan.known_regimes import KnownRegime, deciding_budgets, read_known


def regime(onset_low, onset_high, recovery_low, recovery_high, worst=None):
    return KnownRegime(
        accepted=True,
        confirmed=True,
        onset_low=onset_low,
        onset_high=onset_high,
        recovery_low=recovery_low,
        recovery_high=recovery_high,
        slowdown=10.0,
        worst_n_gen=onset_high if worst is None else worst,
    )


def write_summary(folder, **changes):
    curve = {
        "series": "s",
        "name": "GPT-2, CPU",
        "machine": "m",
        "stack": "debian-12_torch-2.7.0_transformers-4.57.6",
        "axes": {"model": "gpt2", "device": "cpu", "n_prompt": 65},
        "verdict": "slow regimes",
        "lengths_measured": {"n_budgets": 9, "n_gen_min": 32, "n_gen_max": 256},
        "regimes": [regime(99, 100, 163, 164).model_dump(), regime(200, 201, 210, 211).model_dump()],
        **changes,
    }
    curve["regimes"][1]["accepted"] = False
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "summary.json").write_text(json.dumps({"speedbump": "1", "curves": [curve]}))


def test_only_accepted_regimes_are_known(tmp_path):
    write_summary(tmp_path)
    (series,) = read_known(tmp_path)
    assert series.axes["n_prompt"] == 65
    assert [found.edges for found in series.regimes] == [((99, 100), (163, 164))]


def test_a_missing_or_broken_summary_is_one_line(tmp_path):
    with pytest.raises(StudyError, match=r"summary.json is missing: run the study \S+ first"):
        read_known(tmp_path)
    write_summary(tmp_path, machine=7)
    with pytest.raises(StudyError, match=r"curves.0.machine is not as the report writes it"):
        read_known(tmp_path)
    (tmp_path / "site" / "summary.json").write_text("{")
    with pytest.raises(StudyError, match=r"summary.json is no JSON"):
        read_known(tmp_path)


def test_both_sides_of_each_edge_one_inside_and_normal_ones_at_both_sides():
    scan = [*range(32, 257, 32), 99, 100, 112, 163, 164]
    assert deciding_budgets([regime(99, 100, 163, 164, worst=128)], scan) == [32, 96, 99, 100, 128, 163, 164, 192, 256]


def test_an_open_regime_has_one_edge_and_its_normal_budgets_at_one_side():
    scan = range(32, 257, 32)
    assert deciding_budgets([regime(160, 192, 256, None)], scan) == [32, 64, 96, 128, 160, 192, 224]
    assert deciding_budgets([regime(None, 32, 64, 96)], scan) == [32, 64, 96, 128, 160, 224, 256]


def test_no_normal_budget_lies_in_another_regime():
    scan = list(range(32, 513, 32))
    two = [regime(96, 128, 160, 192), regime(320, 352, 384, 416)]
    assert not {n for n in deciding_budgets(two, scan) if 128 < n < 160 or 352 < n < 384}


def test_without_a_regime_a_few_are_spread():
    assert deciding_budgets([], range(32, 257, 32)) == [32, 96, 192, 256]
    assert deciding_budgets([], [64]) == [64]


@given(st.sets(st.integers(1, 1000), min_size=1), st.integers(1, 990), st.integers(1, 200), st.integers(0, 6))
def test_few_of_them_and_the_edges_always(budgets, onset, width, n_normal):
    known = regime(onset, onset + 1, onset + width, onset + width + 1)
    chosen = deciding_budgets([known], budgets, n_normal)
    edges = {n for edge in known.edges for n in edge}
    assert edges <= set(chosen) <= edges | {known.worst_n_gen} | budgets
    assert len(chosen) <= len(edges) + 1 + n_normal


def test_reading_needs_no_polars():
    code = "import sys; import speedbump.plan.known_regimes; print('polars' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "scripts"}
    )
    assert done.stdout.strip() == "False"
