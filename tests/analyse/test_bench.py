"""What the benchmark counts."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bench.answers import Answer
from bench.curves import FRESH, GRIDS, RATE, STEP, TRENDS, Scenario, Truth, lengths_of, simulate
from bench.families import families
from bench.goals import GOALS, Goal
from bench.load import AT_REST_S, Load, run_beside
from bench.page import render_page, render_summary
from bench.scenarios import all_scenarios, first_scenarios
from bench.scoring import Score, draw, score_tables
from bench.tables import answers_of, requests_of
from bench.thresholds import theil_sen_ratio, trimmed_envelope
from bench.upgrades import Count, compare_one_sided, one_sided
from speedbump.tables import REQUESTS, check_table

PAGE = Path(__file__).parents[2] / "docs" / "regimes.md"
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


def test_another_seed_draws_another_series_of_the_same_kind():
    name = "bump/F5/w3/mid/n12/s0.05"
    tuned, other, again = (draw(name, all_scenarios()[name], 3, seed) for seed in (0, 7, 7))
    assert not np.allclose(tuned.curve.pooled(0), other.curve.pooled(0))
    assert (other.curve.pooled(0) == again.curve.pooled(0)).all()
    assert len(other.truth.regimes) == 1


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


QUIET = Scenario(12, sigma=0.001, roughness=0.0, outliers=0.0, trend="affine", grid="even", table=True)


def departures(scenario: Scenario, seed: int = 1) -> tuple[np.ndarray, Truth]:
    """How many times as long each length takes as in the same series without what the scenario adds."""
    plain = replace(scenario, stays=1.0, period=0, fast=1.0)
    drawn = simulate(scenario, np.random.default_rng(seed))
    return np.exp(drawn.truth.log_latency - simulate(plain, np.random.default_rng(seed)).truth.log_latency), drawn.truth


@pytest.mark.parametrize("factor", [5.0, 0.5])
def test_a_step_stays_from_its_first_length_on(factor):
    times, truth = departures(replace(QUIET, stays=factor))
    assert times == pytest.approx(np.where(np.arange(12) >= truth.step, factor, 1))
    assert 4 <= truth.step <= 8
    assert truth.regimes == []


@pytest.mark.parametrize("period", [2, 4])
def test_half_of_the_lengths_of_a_pattern_are_slow(period):
    times, _ = departures(replace(QUIET, period=period, alternating=2.0))
    assert times == pytest.approx(np.roll(times, period))
    assert sorted(times) == pytest.approx([1] * 6 + [2] * 6)


def test_one_length_is_too_fast_and_none_of_a_regime():
    for seed in range(20):
        times, truth = departures(replace(QUIET, fast=4.0, bumps=((5, 3, "mid"),)), seed)
        assert sorted(times) == pytest.approx([0.25] + [1] * 11)
        assert not truth.slow[np.argmin(times)]


def test_each_further_token_costs_more_beyond_the_knee():
    drawn = simulate(replace(QUIET, rate=3.0), np.random.default_rng(1))
    cost = np.diff(np.exp(drawn.truth.log_latency))
    assert cost[-1] / cost[0] == pytest.approx(3)
    assert len(np.unique(cost.round(6))) == 2
    assert drawn.truth.bends


def test_lengths_are_spaced_as_the_grid_says():
    assert lengths_of("x2", 5).tolist() == [16, 32, 64, 128, 256]
    assert np.diff(lengths_of("even", 4)).tolist() == [4096] * 3
    for scenario in families().values():
        assert len(scenario.lengths) == scenario.n
        assert (np.diff(scenario.lengths) > 0).all()


@pytest.mark.parametrize("kind", FRESH)
def test_fresh_kinds_are_smooth(kind):
    """No length takes 1.3 times what its neighbours suggest."""
    for seed in range(20):
        latency = np.log(TRENDS[kind](np.linspace(0.025, 1, 40), np.random.default_rng(seed)))
        assert np.abs(latency[1:-1] - (latency[:-2] + latency[2:]) / 2).max() < np.log(1.3)


def test_stopped_lengths_are_told_by_a_bound_below_what_they_take():
    scenario = replace(QUIET, stopped=3, stopped_by="guard")
    drawn = simulate(scenario, np.random.default_rng(1))
    requests = requests_of(drawn, scenario, 0, np.random.default_rng(1))
    stopped = requests.filter("lower_bound")
    assert stopped["n_gen"].to_list() == drawn.curve.budget[-3:].astype(int).tolist()
    assert (stopped["e2e_s"].log().to_numpy() < drawn.truth.log_latency[-3:]).all()
    assert "memory guard" in stopped["message"][0]
    assert check_table(requests, REQUESTS, "test").height == 9 * 5 + 3


@pytest.mark.parametrize("when", ["begins", "ends", "passes", "throughout"])
def test_a_load_slows_the_requests_and_the_fixed_work_of_the_same_cells(when):
    slowed, fixed = run_beside(Load(when, 4.0, ordered=True), 32, np.random.default_rng(1))
    loaded = np.array([by.mean() for by in slowed(5)]) != 0
    runs = np.flatnonzero(np.diff(loaded.astype(int)))
    assert len(runs) == {"begins": 1, "ends": 1, "passes": 2, "throughout": 0}[when]
    assert loaded[-1] == (when in ("begins", "throughout"))
    above = np.log(fixed.seconds / np.array(AT_REST_S)).max(axis=(1, 2))
    assert ((above > 0.5) == loaded).mean() > 0.9
    assert (fixed.flagged == loaded).all()


def test_a_load_that_no_counter_shows_flags_only_what_drifts():
    _, fixed = run_beside(Load("throughout", 3.0, counted=False), 200, np.random.default_rng(1))
    assert 0.3 < fixed.flagged.mean() < 0.95


def test_right_false_and_told():
    """A step is right between its lengths; told as a regime, or where there is none, it is a false alarm."""
    stepped = replace(TRUTH, regimes=[], slowdowns=[], step=4)
    smooth = replace(TRUTH, regimes=[], slowdowns=[])
    bent = replace(smooth, bends=True)
    for truth, answer, right, expected in (
        (stepped, Answer([], [], "step", step=(3, 4)), STEP, (1, 1, 0)),
        (stepped, Answer([], [], "step", step=(4, 5)), STEP, (0, 0, 0)),
        (stepped, Answer([], [], "step", step=(1, 8)), STEP, (0, 0, 0)),
        (stepped, Answer([(4, 9)], [NARROW], "excess"), STEP, (0, 0, 1)),
        (stepped, Answer([], [], "undetermined"), STEP, (0, 1, 0)),
        (smooth, Answer([], [], "step", step=(3, 4)), frozenset({"smooth"}), (0, 0, 1)),
        (smooth, Answer([], [], "rate change"), frozenset({"smooth"}), (0, 0, 1)),
        (bent, Answer([], [], "rate change"), RATE, (1, 1, 0)),
    ):
        total = Score()
        total.add(answer, truth, right=right)
        assert (total.right, total.told, total.false_alarms) == expected


def test_a_table_gives_the_answers_of_its_series_in_order():
    scenarios = [QUIET, replace(QUIET, bumps=((10, 2, "mid"),))]
    drawn = [simulate(scenario, np.random.default_rng(1)) for scenario in scenarios]
    tables = [requests_of(one, QUIET, k, np.random.default_rng(1)) for k, one in enumerate(drawn)]
    smooth, slow = answers_of(pl.concat(tables), drawn)
    assert smooth.verdict == "smooth"
    assert slow.regimes == drawn[1].truth.regimes


def test_a_known_machine_was_also_seen_at_rest():
    scenario = replace(QUIET, load=Load("throughout", 5.0, known=True))
    drawn = simulate(scenario, np.random.default_rng(1))
    requests = requests_of(drawn, scenario, 0, np.random.default_rng(1))
    at_rest = requests.filter(pl.col("series") != "s0")
    assert requests["machine"].n_unique() == 1
    assert at_rest["sentinel_before_s"].mean() < 0.4 * requests.filter(series="s0")["sentinel_before_s"].mean()
    assert len(answers_of(requests, [drawn])) == 1


def test_families_are_scored_from_their_tables():
    scored = score_tables("behind/null/n10/s0.01", families()["behind/null/n10/s0.01"], 3, seed=1)
    assert (scored.series, scored.right, scored.false_alarms) == (3, 3, 0)
    rows = [{"scenario": "behind/null/n10/s0.01", "method": "regimes", **scored.row()}]
    summary = render_summary(rows)
    assert "mean of behind, 1 scenarios" in summary
    assert re.search("^met  .*, one answer behind growing contexts: 0.0 %", summary, re.MULTILINE)


def test_a_load_on_one_side_of_an_upgrade_is_counted():
    count = Count()
    for k in range(2):
        count.add_row(compare_one_sided("busy/old/throughout/x3/n10", one_sided()["busy/old/throughout/x3/n10"], k))
    assert count.pairs == 2
    assert count.cannot_tell == 2
    assert count.found == 0


@pytest.mark.xfail(strict=True, reason="the page was made before the families; make it anew, then drop this mark")
def test_the_committed_page_keeps_every_promise():
    lines = re.findall(r"^\| (.+?) \| .* \| (yes|no) \| .*\|$", PAGE.read_text(), re.MULTILINE)
    assert [name for name, _ in lines] == [goal.name for goal in GOALS]
    assert [name for name, met in lines if met == "no"] == []
    assert "nothing on this one" in PAGE.read_text()
