"""Rates that change for good."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bench.curves import Scenario, simulate
from bench.requests import Run, requests_table
from speedbump.analyse.csv_table import findings_of_csv
from speedbump.analyse.curve import from_repeats
from speedbump.analyse.examine import examine
from speedbump.analyse.rate import find_rate_change
from speedbump.analyse.regimes import find_regimes
from speedbump.analyse.step_times import find_rate_changes
from speedbump.analyse.summary import summarise
from speedbump.analyse.verdict import judge

CASES = Path(__file__).parent / "data" / "cases"
BUDGETS = np.arange(128.0, 1025, 64)


def change_of(latency, noise=0.01, seed=0, repeats=5, budget=BUDGETS):
    rng = np.random.default_rng(seed)
    curve = from_repeats(budget, [t * np.exp(rng.normal(0, noise, repeats)) for t in latency(budget)])
    return find_rate_change(curve, summarise(curve))


def broken(n, place=512, ratio=2.0):
    return 0.3 + 0.02 * n + 0.02 * (ratio - 1) * np.maximum(n - place, 0)


@pytest.mark.parametrize(
    ("name", "place", "ratio"),
    [
        ("rate_drop_2", 512, 2),
        ("rate_drop_5", 512, 5),
        ("rate_drop_20", 512, 20),
        ("lin_tail10", 768, 10),
        ("rate-of-seven-lengths", 512, 2),
    ],
)
def test_from_some_length_on_each_further_token_costs_more(name, place, ratio):
    """Also where a smooth trend sees a regime without an end."""
    row = findings_of_csv(CASES / f"{name}.csv").series.row(0, named=True)
    assert (row["verdict"], row["n_regimes"]) == ("rate change", 0)
    assert row["rate_from"] == pytest.approx(place, abs=32)
    assert row["rate_from_low"] <= row["rate_from"] <= row["rate_from_high"]
    assert row["rate_ratio"] == pytest.approx(ratio, rel=0.06)
    assert row["rate_ratio_low"] <= ratio <= row["rate_ratio_high"]
    assert row["falls"] is False


@pytest.mark.parametrize(
    "latency",
    [
        lambda n: 0.3 + 0.02 * n,
        lambda n: 0.3 + 0.01 * n + 4e-5 * n**2,
        lambda n: 1e-5 * n**2,
        lambda n: n**0.6,
        lambda n: n**1.4,
        lambda n: np.full_like(n, 5.0),
        lambda n: broken(n, ratio=1.3),
        lambda n: np.ceil(n / 256) * 256,
    ],
)
def test_curves_that_bend_have_one_rate(latency):
    assert not any(change_of(latency, seed=seed) for seed in range(5))


def test_a_level_that_stays_is_no_rate():
    assert change_of(lambda n: (0.3 + 0.02 * n) * np.where(n > 512, 2.0, 1.0)) is None


def test_a_change_over_no_stretch_is_not_told():
    assert change_of(lambda n: broken(n, place=900), budget=np.arange(832.0, 1025, 16)) is None


def test_without_a_cache_as_well():
    def latency(n):
        cost = 1e-5 * n**2 + 0.1
        at = 1e-5 * 512**2 + 0.1
        return np.where(n > 512, at + 3 * (cost - at), cost)

    change = change_of(latency)
    assert change.at == pytest.approx(512, abs=32)
    assert change.ratio.value == pytest.approx(3, rel=0.1)


def test_a_regime_on_top_of_it_is_still_a_regime():
    rng = np.random.default_rng(1)
    latency = broken(BUDGETS) * np.where(BUDGETS == 320, 5.0, 1.0)
    curve = from_repeats(BUDGETS, [t * np.exp(rng.normal(0, 0.01, 5)) for t in latency])
    anatomy = examine(curve)
    assert [int(curve.budget[s.first]) for s in anatomy.accepted][:1] == [320]
    assert judge(anatomy).verdict in ("slow regimes", "excess")


def steps_of(n: int, place: int, ratio: float, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    times = 0.01 * np.exp(rng.normal(0, 0.05, n)) * np.where(np.arange(n) >= place, ratio, 1.0)
    return [0.05, *times[1:]]


def requests_with_steps(place: int, ratio: float, until: int = 10_000) -> pl.DataFrame:
    runs = []
    for n in (256, 320, 384, 448, 512):
        for k in range(3):
            times = steps_of(n, place, ratio, n + k)
            times = [t / ratio if i >= until else t for i, t in enumerate(times)]
            changes = (("request", k), ("step_s", times), ("instrument", "per_step"))
            runs.append(Run("s", n, (sum(times),), changes=changes))
    return requests_table(runs)


def test_step_times_show_it_to_a_block():
    change = find_rate_changes(requests_with_steps(402, 1.6))["s"]
    assert change.low <= 402 <= change.high
    assert change.high - change.low <= 32
    assert change.ratio.value == pytest.approx(1.6, rel=0.02)
    row = find_regimes(requests_with_steps(402, 1.6)).series.row(0, named=True)
    assert row["verdict"] == "rate change"
    assert abs(row["rate_from"] - 402) <= 8


def test_steps_that_are_fast_again_are_no_change_for_good():
    assert find_rate_changes(requests_with_steps(200, 3.0, until=300)) == {}
    assert find_rate_changes(requests_with_steps(400, 1.0)) == {}


@pytest.mark.simulation
@pytest.mark.parametrize("trend", ["affine", "quad", "power", "tile", "saw", "plateau", "flat"])
def test_smooth_curves_seldom_change_their_rate(trend):
    told = 0
    for seed in range(100):
        curve = simulate(Scenario(40, trend=trend), np.random.default_rng([seed, 77])).curve
        told += find_rate_change(curve, summarise(curve)) is not None
    assert told <= 1
