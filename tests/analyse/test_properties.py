"""What must not matter: the unit of time, the order of the rows, one more budget on the trend."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.requests import Run, requests_table
from speedbump.analyse.curve import from_repeats
from speedbump.analyse.regimes import find_regimes
from speedbump.analyse.segments import dissect
from speedbump.analyse.verdict import judge

BUDGETS = np.arange(128, 769, 32)
TOLD = ("accepted", "first_slow", "last_slow", "onset_low", "onset_high", "recovery_low", "recovery_high")

few = settings(max_examples=30, deadline=None, derandomize=True)
factors = st.floats(1.5, 30)


@st.composite
def runs_of_a_series(draw: st.DrawFn) -> list[Run]:
    """A noisy series with a regime of any place, width and size, or none."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    first, width = draw(st.integers(0, 20)), draw(st.integers(0, 8))
    factor, noise = draw(factors), draw(st.sampled_from([0.01, 0.05, 0.15]))
    slow = np.where((np.arange(21) >= first) & (np.arange(21) < first + width), factor, 1.0)
    latency = (0.2 + 0.01 * BUDGETS) * slow
    repeats = latency[:, None] * np.exp(rng.normal(0, noise, (21, draw(st.integers(1, 6)))))
    return [Run("s", int(b), tuple(values)) for b, values in zip(BUDGETS, repeats.tolist(), strict=True)]


@few
@given(runs_of_a_series(), st.floats(1e-4, 1e4))
def test_the_unit_of_time_does_not_matter(runs, scale):
    requests = requests_table(runs)
    before = find_regimes(requests)
    after = find_regimes(requests.with_columns(pl.col("e2e_s") * scale))
    assert before.series.select("verdict", "n_regimes").equals(after.series.select("verdict", "n_regimes"))
    assert before.regimes.select(TOLD).equals(after.regimes.select(TOLD))
    assert before.regimes["slowdown"].to_numpy() == pytest.approx(after.regimes["slowdown"].to_numpy(), rel=1e-6)


@few
@given(runs_of_a_series(), st.integers(0, 1000))
def test_the_order_of_the_rows_does_not_matter(runs, seed):
    requests = requests_table(runs)
    before, after = find_regimes(requests), find_regimes(requests.sample(fraction=1, shuffle=True, seed=seed))
    assert before.series.equals(after.series)
    assert before.regimes.equals(after.regimes)
    assert before.budgets.equals(after.budgets)


@few
@given(st.integers(0, 10_000), st.integers(2, 15), st.integers(0, 4), st.floats(3, 30), st.integers(0, 19))
def test_one_more_budget_on_the_trend_changes_no_regime(seed, first, width, factor, gap):
    rng = np.random.default_rng(seed)
    slow = np.where((np.arange(21) >= first) & (np.arange(21) < first + width), factor, 1.0)
    repeats = list((0.2 + 0.01 * BUDGETS)[:, None] * slow[:, None] * np.exp(rng.normal(0, 0.03, (21, 5))))
    before = dissect(from_repeats(BUDGETS, repeats))
    if slow[gap] > 1 or slow[gap + 1] > 1:
        gap = 18 if first + width < 18 else 0
    new = float(BUDGETS[gap] + 16)
    expected = np.interp(new, BUDGETS, np.exp(before.expectation.log_latency))
    budgets = np.insert(BUDGETS.astype(float), gap + 1, new)
    repeats.insert(gap + 1, expected * np.exp(rng.normal(0, 0.03, 5)))
    after = dissect(from_repeats(budgets, repeats))
    assert judge(before).verdict == judge(after).verdict
    assert regimes(before) == regimes(after)


def regimes(anatomy) -> list[tuple[float, float]]:
    return [(anatomy.curve.budget[s.first], anatomy.curve.budget[s.last]) for s in anatomy.accepted]
