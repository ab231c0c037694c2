"""Slow requests that may be chance."""

import numpy as np
import pytest
from scipy import stats

from speedbump.analyse.chance import Disturbances, at_least, disturbed_requests
from speedbump.analyse.curve import from_repeats


def series(n_slow_elsewhere: int, own: list[float], n: int = 20, repeats: int = 5) -> Disturbances:
    """Budget 0 with the slow-downs given; single slow requests of 3 at as many other budgets."""
    elsewhere = np.zeros((n - 1, repeats))
    elsewhere[:n_slow_elsewhere, 0] = np.log(3)
    departures = [np.log(own), *elsewhere]
    known = np.sort(np.concatenate(departures[1:]))
    return Disturbances(tuple(departures), np.arange(n) > 0, 0.05, known)


def test_five_slow_requests_are_no_chance_and_one_may_be():
    assert series(0, [3, 3, 3, 3, 3]).of_segment(0, 0) < 1e-6
    assert series(0, [3]).of_segment(0, 0) > 0.05


def test_what_happens_elsewhere_makes_it_likelier():
    quiet, noisy = series(0, [3, 3]).of_segment(0, 0), series(19, [3, 3]).of_segment(0, 0)
    assert noisy > 20 * quiet


def test_a_mixed_budget_does_not_pass_for_a_slow_one():
    assert series(0, [3, 3, 3, 1, 1]).of_segment(0, 0) > 0.5


def test_two_of_five_slow_requests_are_two_states_and_one_is_chance():
    assert series(1, [5, 5, 1, 1, 1]).of_some(0, 2) < 0.002
    assert series(1, [3, 1, 1, 1, 1]).of_some(0, 1) > 0.05


def test_at_least_is_beta_binomial():
    """And tends to the binomial as the rate gets better known."""
    rate, known_by = 0.02, 1.5
    exact = stats.betabinom(5, known_by, known_by * (1 - rate) / rate)
    assert [at_least(k, 5, rate, known_by) for k in (1, 2, 5)] == pytest.approx([exact.sf(k - 1) for k in (1, 2, 5)])
    assert at_least(2, 5, rate, 1e6) == pytest.approx(stats.binom(5, rate).sf(1), rel=1e-4)


def test_a_rate_that_few_requests_tell_makes_two_slow_ones_likelier():
    assert 1.5 < at_least(2, 2, 0.01, 1.0) / 0.01**2 <= 2


def singles(*slow: float) -> Disturbances:
    """Twenty budgets of one request each; every fourth of the first so slow, the last two three times."""
    latency = np.ones(20)
    latency[: 4 * len(slow) : 4] = slow
    latency[18:] = 3.0
    curve = from_repeats(np.arange(1, 21) * 64.0, [np.array([value]) for value in latency])
    return disturbed_requests(curve, np.zeros(20), latency < 1.4)


def test_odd_single_requests_elsewhere_make_two_neighbours_less_of_a_regime():
    assert singles(4.0, 4.0, 4.0).of_segment(18, 19) > 10 * singles().of_segment(18, 19)


def test_an_odd_single_request_is_no_witness_against_itself():
    one = singles(30.0)
    own = one.departures[0]
    assert one.rate(float(own[0]), own) < one.rate(float(own[0]))
    assert one.of_segment(0, 0) == pytest.approx(min(1.0, 20 * one.rate(float(own[0]), own)), rel=1e-6)
