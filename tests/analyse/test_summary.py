"""Centres and errors of budgets."""

import numpy as np
import pytest

from speedbump.analyse.curve import Curve, from_published, from_repeats
from speedbump.analyse.summary import PROCESS_SD, summarise


def repeats(*budgets: list[float]) -> Curve:
    return from_repeats(np.arange(1, len(budgets) + 1), [np.array(b) for b in budgets])


def test_the_centre_is_the_median_up_to_four_repeats_and_a_trimmed_mean_from_five():
    summary = summarise(repeats([1, 2, 100], [1, 2, 4, 8, 1000]))
    assert np.exp(summary.centre) == pytest.approx([2, 4])


def test_the_error_of_a_centre_is_honest_for_normal_noise():
    rng = np.random.default_rng(0)
    curve = repeats(*np.exp(rng.normal(0, 0.1, (4000, 5))).tolist())
    summary = summarise(curve)
    assert np.sqrt(summary.variance.mean()) == pytest.approx(summary.centre.std(), rel=0.15)


def test_one_repeat_gets_the_pooled_variance():
    rng = np.random.default_rng(0)
    curve = repeats([1.0], *np.exp(rng.normal(0, 0.05, (50, 5))).tolist())
    summary = summarise(curve)
    assert summary.variance[0] == pytest.approx(0.05**2, rel=0.5)


def test_processes_that_differ_widen_the_error():
    apart = (np.log([1.0, 1.01, 0.99]), np.log([2.0, 2.02, 1.98]))
    alike = (np.log([1.0, 1.01, 0.99]), np.log([1.0, 1.02, 0.98]))
    nan, none = np.full(2, np.nan), np.zeros(2, int)
    curve = Curve(np.array([1.0, 2.0]), (apart, alike), nan, none, (np.empty(0),) * 2, np.zeros(2, bool))
    summary = summarise(curve)
    assert np.exp(summary.centre[0]) == pytest.approx(np.sqrt(2))
    assert summary.variance[0] > 20 * summary.variance[1]
    assert summary.variance[1] > 0.3 * PROCESS_SD**2 / 2


def test_published_means_become_centres_of_log_normal_requests():
    summary = summarise(from_published(*np.array([[1, 2], [10, 20], [1, np.nan], [5, 5]], float)))
    assert np.exp(summary.centre) == pytest.approx([10 / np.sqrt(1.01), 20], rel=1e-3)
    assert summary.count.tolist() == [5, 5]
