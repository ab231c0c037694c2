"""Intervals."""

import numpy as np
import pytest
from scipy import stats

from speedbump.analyse.confidence import mean_interval, student_quantile


def test_student_quantiles():
    assert student_quantile(np.array([1.0, 4.0, 7.5])) == pytest.approx(stats.t.ppf(0.975, [1, 4, 7.5]))


def test_mean_interval_is_students():
    values = np.array([1.0, 2.0, 3.0, 6.0])
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (interval.value, interval.low, interval.high) == pytest.approx((3, low, high))


def test_one_value_has_no_interval():
    assert mean_interval(np.array([1.0])) is None
