"""Patterns that repeat along the lengths."""

from pathlib import Path

import numpy as np
import pytest

from bench.curves import Scenario, simulate
from speedbump.analyse.csv_table import findings_of_csv
from speedbump.analyse.curve import from_repeats
from speedbump.analyse.examine import examine
from speedbump.analyse.pattern import find_pattern
from speedbump.analyse.summary import summarise

CASES = Path(__file__).parent / "data" / "cases"
BUDGETS = np.arange(128.0, 1025, 32)


def pattern_of(shape, noise=0.02, seed=0, budget=BUDGETS, repeats=5):
    rng = np.random.default_rng(seed)
    latency = (0.3 + 0.02 * budget) * shape(budget)
    curve = from_repeats(budget, [t * np.exp(rng.normal(0, noise, repeats)) for t in latency])
    return find_pattern(curve, summarise(curve))


@pytest.mark.parametrize(
    ("name", "period", "height"),
    [
        ("alt15", 128, "1.5"),
        ("alt_1.5", 64, "1.5"),
        ("alt_2", 64, "2.0"),
        ("alt_3", 64, "3.0"),
        ("alt_5", 64, "5.0"),
        ("lin_alternating", 64, "1.5"),
    ],
)
def test_every_second_length_is_named(name, period, height):
    row = findings_of_csv(CASES / f"{name}.csv").series.row(0, named=True)
    assert (row["verdict"], row["n_regimes"]) == ("undetermined", 0)
    assert row["reason"] == f"every second length (period {period} tokens) takes {height} times as long"
    assert row["next"]


def test_a_saw_tooth_is_named():
    found = pattern_of(lambda n: 1 + 0.8 * (n % 256) / 256)
    assert found.period == 256
    assert found.height == pytest.approx(1.7, rel=0.08)
    assert "period of 256 tokens" in found.told()


def test_tiles_and_pages_are_normal():
    assert pattern_of(lambda n: 1 + 0.25 * (n % 64 > 0)) is None
    assert pattern_of(lambda n: 1 + 0.2 * (n % 256) / 256) is None


def test_what_does_not_repeat_is_no_pattern():
    assert pattern_of(lambda n: np.where(n == 512, 5.0, 1.0)) is None
    assert pattern_of(lambda n: np.where((n >= 512) & (n < 700), 3.0, 1.0)) is None
    assert pattern_of(lambda n: np.where(n > 512, 2.0, 1.0)) is None


def test_regimes_far_apart_stay_regimes(make_curve):
    curve = make_curve({256: 4.0, 512: 4.0, 768: 4.0})
    assert len(examine(curve).accepted) == 3


@pytest.mark.simulation
@pytest.mark.parametrize("trend", ["mix", "tile", "saw", "plateau"])
@pytest.mark.parametrize("n", [12, 40])
@pytest.mark.parametrize("repeats", [1, 5])
def test_smooth_curves_seldom_repeat(trend, n, repeats):
    told = 0
    for seed in range(100):
        curve = simulate(Scenario(n, repeats, trend=trend), np.random.default_rng([seed, 78])).curve
        told += find_pattern(curve, summarise(curve)) is not None
    assert told <= 1
