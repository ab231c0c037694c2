"""The normal trend and what it expects."""

import numpy as np
import pytest

from speedbump.analyse.curve import from_repeats
from speedbump.analyse.summary import summarise
from speedbump.analyse.trend import distance_to, expect, fit_normal_trend, powers_of

BUDGETS = np.arange(128, 769, 32)


def fit(latency, normal=None):
    summary = summarise(from_repeats(BUDGETS, [np.array([t, t * 1.01, t * 0.99]) for t in latency]))
    normal = np.ones(len(BUDGETS), bool) if normal is None else normal
    x = np.log(BUDGETS)
    return fit_normal_trend(x, powers_of(BUDGETS.astype(float)), summary, normal), summary, x, normal


@pytest.mark.parametrize(
    "latency",
    [0.5 + 0.01 * BUDGETS, 0.1 + 1e-5 * BUDGETS**2, 0.01 * BUDGETS**1.3, np.full(len(BUDGETS), 3.0)],
    ids=["affine", "quadratic", "power", "flat"],
)
def test_shapes_without_choosing_one(latency):
    trend, *_ = fit(latency)
    assert np.exp(trend.log_latency) == pytest.approx(latency, rel=0.08)


def test_the_trend_never_falls():
    trend, *_ = fit(10 - 0.01 * BUDGETS)
    assert (np.diff(trend.log_latency) >= -1e-12).all()


def test_slow_budgets_do_not_pull_it():
    latency = 0.01 * BUDGETS.astype(float)
    latency[8:12] *= 10
    trend, *_ = fit(latency, normal=np.r_[np.ones(8), np.zeros(4), np.ones(9)].astype(bool))
    assert np.exp(trend.log_latency) == pytest.approx(0.01 * BUDGETS, rel=0.03)


def test_two_budgets_at_least():
    with pytest.raises(ValueError, match="two normal budgets, got 1"):
        fit(0.01 * BUDGETS, normal=BUDGETS == 128)


def test_the_expectation_is_less_sure_away_from_normal_budgets():
    normal = BUDGETS < 448
    trend, summary, x, normal = fit(0.01 * BUDGETS, normal)
    sure = expect(trend, x, summary, normal).variance
    assert (np.diff(sure[~normal]) > 0).all()
    assert sure[~normal].min() > sure[normal].max()


def test_distances_to_known_places():
    known = np.array([1.0, 3.0])
    assert distance_to(known, np.array([0.0, 1.0, 2.0, 3.0, 5.0])) == pytest.approx([1, 0, 0.5, 0, 2])
