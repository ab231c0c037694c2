"""Whether latency falls."""

import numpy as np

from speedbump.analyse.curve import from_repeats
from speedbump.analyse.monotonicity import fall_after, largest_fall, unusual_fall
from speedbump.analyse.summary import summarise

NONE = np.zeros(4, bool)


def fall(*latency: float, censored=NONE, noise: float = 0.02, test=largest_fall):
    rng = np.random.default_rng(0)
    repeats = [t * np.exp(rng.normal(0, noise, 5)) for t in latency]
    return test(summarise(from_repeats(np.arange(1, len(latency) + 1), repeats)), censored)


def test_a_fall_is_significant():
    found = fall(1, 2, 20, 4)
    assert (found.before, found.after, found.significant) == (2, 3, True)
    assert 4.5 < found.ratio < 5.5


def test_a_rising_curve_does_not_fall():
    assert not fall(1, 2, 3, 4).significant


def test_a_fall_is_shown_whatever_its_size():
    found = fall(1, 2, 2.4, 2)
    assert found.significant
    assert 1.15 < found.ratio < 1.25


def test_falls_that_padding_makes_are_usual():
    assert not fall(1, 2, 2.4, 2, test=unusual_fall).significant
    assert fall(1, 2, 20, 4, test=unusual_fall).significant


def test_single_requests_beside_the_end_of_a_regime_are_pooled():
    budgets = np.arange(1.0, 21)
    latency = budgets * np.where((budgets >= 8) & (budgets <= 13), 4.0, 1.0)
    summary = summarise(from_repeats(budgets, [np.array([t]) for t in latency]))
    normal, none = (budgets < 8) | (budgets > 13), np.zeros(20, bool)
    assert not largest_fall(summary, none).significant
    found = fall_after([(7, 12)], summary, normal, none)
    assert (found.before, found.after, found.significant) == (12, 13, True)


def test_no_fall_after_a_regime_that_is_open():
    budgets = np.arange(1.0, 11)
    summary = summarise(from_repeats(budgets, [np.full(5, t) for t in budgets]))
    assert fall_after([(6, 9)], summary, budgets < 7, np.zeros(10, bool)) is None


def test_noise_hides_a_fall():
    assert not fall(1, 2, 2.8, 2, noise=0.3).significant


def test_nothing_falls_to_a_request_that_was_stopped():
    found = fall(1, 20, 3, 2, censored=np.array([False, False, True, True]))
    assert not found.significant
