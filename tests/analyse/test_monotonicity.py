"""Whether latency falls."""

import numpy as np

from speedbump.analyse.curve import from_repeats
from speedbump.analyse.monotonicity import largest_fall
from speedbump.analyse.summary import summarise

NONE = np.zeros(4, bool)


def fall(*latency: float, censored=NONE, noise: float = 0.02):
    rng = np.random.default_rng(0)
    repeats = [t * np.exp(rng.normal(0, noise, 5)) for t in latency]
    return largest_fall(summarise(from_repeats(np.arange(1, len(latency) + 1), repeats)), censored)


def test_a_fall_is_significant():
    found = fall(1, 2, 20, 4)
    assert (found.before, found.after, found.significant) == (2, 3, True)
    assert 4.5 < found.ratio < 5.5


def test_a_rising_curve_does_not_fall():
    assert not fall(1, 2, 3, 4).significant


def test_falls_that_padding_makes_do_not_count():
    assert not fall(1, 2, 2.4, 2).significant


def test_noise_hides_a_fall():
    assert not fall(1, 2, 2.8, 2, noise=0.3).significant


def test_nothing_falls_to_a_request_that_was_stopped():
    found = fall(1, 20, 3, 2, censored=np.array([False, False, True, True]))
    assert not found.significant
