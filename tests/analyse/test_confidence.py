"""Intervals."""

import numpy as np
import pytest
from scipy import stats

from speedbump.analyse.confidence import student_quantile


def test_student_quantiles():
    assert student_quantile(np.array([1.0, 4.0, 7.5])) == pytest.approx(stats.t.ppf(0.975, [1, 4, 7.5]))
