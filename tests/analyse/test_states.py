"""The two-state chain."""

import itertools

import numpy as np
import pytest

from speedbump.analyse.states import (
    Emissions,
    emissions,
    find_states,
    log_probability,
    most_likely_path,
    probability_slow,
    transitions,
)
from speedbump.analyse.summary import summarise

RNG = np.random.default_rng(3)
SIX = Emissions(*RNG.normal(0, 2, (3, 6)))
PATHS = [np.array(path, bool) for path in itertools.product([False, True], repeat=6)]


def test_the_likeliest_path_is_the_best_of_all():
    chain = transitions(6)
    path, score = most_likely_path(SIX, chain)
    best = max(PATHS, key=lambda p: log_probability(p, SIX, chain))
    assert path.tolist() == best.tolist()
    assert score == pytest.approx(log_probability(best, SIX, chain))


def test_the_posterior_is_the_sum_over_all_paths():
    chain = transitions(6)
    weight = np.exp([log_probability(p, SIX, chain) for p in PATHS])
    expected = (weight[:, None] * np.array(PATHS)).sum(axis=0) / weight.sum()
    assert probability_slow(SIX, chain) == pytest.approx(expected)


def test_moderate_departures_are_normal_and_large_ones_slow():
    departure = np.log([1.0, 1.2, 0.9, 1.6, 3.0, 30.0])
    e = emissions(departure, np.full(6, 0.05), np.zeros(6, bool))
    assert (e.slow > e.normal).tolist() == [False, False, False, True, True, True]


def test_a_bound_below_the_smallest_slowdown_says_nothing():
    e = emissions(np.log([1.3, 5.0]), np.full(2, 0.05), np.array([True, True]))
    assert e.normal[0] == e.slow[0] == 0
    assert e.slow[1] > e.normal[1]


def test_labels_and_trend_are_found_together(make_curve):
    curve = make_curve(dict.fromkeys(range(320, 705, 32), 12.0))  # most budgets are slow
    reading = find_states(curve, summarise(curve))
    assert curve.budget[reading.slow].tolist() == list(range(320, 705, 32))
