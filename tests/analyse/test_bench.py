"""What the benchmark counts."""

import numpy as np
import pytest

from bench.answers import Answer
from bench.curves import GRIDS, TRENDS, Scenario, Truth, simulate
from bench.goals import GOALS, Goal
from bench.page import render_page
from bench.scenarios import all_scenarios, first_scenarios
from bench.scoring import Score, draw
from bench.thresholds import theil_sen_ratio, trimmed_envelope

TRUTH = Truth([(2, 5)], [3.0], np.zeros(10), np.zeros(10, bool))
NARROW, WIDE = (3.0, 2.5, 3.5), (2.0, 1.9, 2.1)


def score(regimes, verdict="slow regimes", slowdown=NARROW) -> Score:
    total = Score()
    total.add(Answer(regimes, [slowdown] * len(regimes), verdict), TRUTH)
    return total


def test_exact_found_and_covered():
    total = score([(2, 5)])
    assert (total.found, total.exact, total.covered, total.false_alarms) == (1, 1, [True], 0)
    assert score([(2, 5)], slowdown=WIDE).covered == [False]


def test_half_of_it_is_found_and_less_is_noticed():
    assert (score([(2, 3)]).found, score([(2, 3)]).exact) == (1, 0)
    assert (score([(5, 5)]).found, score([(5, 5)]).noticed) == (0, 1)


def test_elsewhere_is_a_false_alarm_and_a_miss():
    total = score([(8, 8)])
    assert (total.found, total.noticed, total.false_alarms) == (0, 0, 1)


def test_undetermined_is_noticed():
    total = score([], "undetermined")
    assert (total.found, total.noticed, total.undetermined) == (0, 1, 1)


def test_scenarios_are_drawn_the_same_again():
    assert len(first_scenarios()) == 346
    name = "bump/F5/w3/mid/n12/s0.05"
    one, two = (draw(name, all_scenarios()[name], 3) for _ in range(2))
    assert one.truth.regimes == two.truth.regimes
    assert all((a[0] == b[0]).all() for a, b in zip(one.curve.repeats, two.curve.repeats, strict=True))


@pytest.mark.parametrize("trend", TRENDS)
def test_trends_hardly_fall(trend):
    """Padding saves up to 20 % at its border; nothing else falls."""
    for seed in range(20):
        latency = TRENDS[trend](GRIDS[40] / 768, np.random.default_rng(seed))
        assert (latency[1:] > 0.8 * latency[:-1]).all()


@pytest.mark.parametrize("method", [theil_sen_ratio, trimmed_envelope])
def test_the_plain_thresholds_find_a_plain_regime(method):
    scenario = Scenario(40, sigma=0.02, trend="affine", outliers=0, bumps=((10, 3, "mid"),))
    drawn = simulate(scenario, np.random.default_rng(1))
    assert drawn.truth.regimes[0] in method(drawn.curve).regimes


def test_a_goal_takes_the_worst_scenario_and_the_mean():
    goal = Goal("found", "a.*", "found", 0.9, 0.95)
    rows = [{"scenario": "a1", "found": 1.0}, {"scenario": "a2", "found": 0.92}, {"scenario": "b", "found": 0.1}]
    kept = goal.of(rows)
    assert (kept.worst, kept.scenario, kept.n) == (0.92, "a2", 2)
    assert goal.is_met(kept)
    assert not Goal("found", "a.*", "found", 0.93).is_met(kept)
    assert not Goal("found", "a.*", "found", 0.9, 0.97).is_met(kept)


def test_every_goal_has_scenarios():
    names = [{"scenario": name, goal.column: 1.0} for goal in GOALS for name in all_scenarios()]
    assert all(goal.of(names) is not None for goal in GOALS)


def test_the_page_shows_every_goal():
    rows = [{"scenario": name, "method": "regimes", **Score(series=1).row()} for name in all_scenarios()]
    page = render_page(rows, [], 1)
    assert "false alarms, smooth" in page
    assert page.count("null/ties/n6 ") == 1
