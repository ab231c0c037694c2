"""Ends of a curve that could be slow."""

import numpy as np
import pytest

from speedbump.analyse.curve import from_repeats
from speedbump.analyse.segments import dissect
from speedbump.analyse.verdict import judge

BUDGETS = np.arange(128, 769, 128)


def curve_of(latency, seed=0):
    rng = np.random.default_rng(seed)
    return from_repeats(BUDGETS, [t * np.exp(rng.normal(0, 0.03, 5)) for t in latency])


@pytest.mark.parametrize("place", [[0], [0, 1, 2], [5], [4, 5]])
@pytest.mark.parametrize("seed", range(4))
def test_an_end_twice_as_slow_is_found_or_doubted(place, seed):
    latency = 0.01 * BUDGETS.astype(float)
    latency[place] *= 2
    assert judge(dissect(curve_of(latency, seed))).verdict != "smooth"


@pytest.mark.parametrize(
    "latency", [0.01 * BUDGETS, 1e-5 * BUDGETS**2, 0.5 + 0.01 * BUDGETS], ids=["line", "square", "start"]
)
def test_plain_curves_are_not_doubted(latency):
    assert judge(dissect(curve_of(latency))).verdict == "smooth"


def test_the_reason_names_the_end_and_what_to_measure():
    latency = 0.01 * BUDGETS.astype(float)
    latency[0] *= 1.8
    anatomy = dissect(curve_of(latency))
    if anatomy.doubtful_end is None:
        pytest.fail("the end was expected to be doubtful")
    verdict = judge(anatomy)
    assert "128" in verdict.reason
    assert "below 128" in verdict.next
