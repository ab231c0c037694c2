"""Slow requests that may be chance."""

import numpy as np

from speedbump.analyse.chance import Disturbances


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
