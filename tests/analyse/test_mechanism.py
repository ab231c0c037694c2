"""Verdicts on hypotheses: the rules on made-up observations, and the whole on simulated machines."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.mechanisms.confusion import MIXTURES, TRUTHS, name_mechanism, tally
from bench.mechanisms.page import part_of, rules_table, statements, with_rows
from bench.mechanisms.study import PLAIN, PROTOCOL, STACK, machine_of, simulate_cells, simulate_study
from bench.mechanisms.world import World, draw_world
from speedbump.analyse.mechanism.arms import Curve, Point, Regime
from speedbump.analyse.mechanism.effects import effect_of
from speedbump.analyse.mechanism.judge import judge_study, sights
from speedbump.analyse.mechanism.observations import OBSERVABLES, observe
from speedbump.analyse.mechanism.rules import PREDICTIONS, STATEMENTS, Range, explaining, judge, named
from speedbump.analyse.mechanism.sight import Observation
from speedbump.analyse.regimes import find_regimes
from speedbump.tables import GROWTH, HYPOTHESES, MITIGATIONS, check_table

UNSEEN = {name: Observation(None, "not measured") for name in OBSERVABLES}


def at(value: float, half: float = 0.0) -> Observation:
    return Observation(value, "seen", value - half, value + half)


def agreeing(hypothesis: str, needed_alone: bool = False) -> dict[str, Observation]:
    """Observations that agree with all that a hypothesis predicts, nothing else seen."""
    seen = dict(UNSEEN)
    for p in PREDICTIONS:
        if p.hypothesis == hypothesis and (p.needed or not needed_alone):
            seen[p.observable] = at(inside(p.range))
    return seen


def inside(limits: Range) -> float:
    """A value well within a range."""
    return (max(limits.low, min(limits.high - 1, 0)) + min(limits.high, max(limits.low + 1, 1))) / 2


def verdict(hypothesis: str, seen: dict[str, Observation]) -> str:
    return next(v.verdict for v in judge(seen) if v.hypothesis == hypothesis)


def test_every_observable_is_in_some_rule_and_every_hypothesis_needs_something():
    assert {p.observable for p in PREDICTIONS} == set(OBSERVABLES)
    assert {p.hypothesis for p in PREDICTIONS if p.needed} == set(STATEMENTS)
    assert len({(p.hypothesis, p.observable) for p in PREDICTIONS}) == len(PREDICTIONS)


@pytest.mark.parametrize("hypothesis", STATEMENTS)
def test_supported_by_what_it_needs_and_by_nothing_less(hypothesis):
    whole = agreeing(hypothesis, needed_alone=True)
    assert verdict(hypothesis, whole) == "supported"
    for prediction in PREDICTIONS:
        if prediction.hypothesis == hypothesis and prediction.needed:
            less = whole | {prediction.observable: UNSEEN[prediction.observable]}
            assert verdict(hypothesis, less) in ("can't tell", "nothing to explain")


@pytest.mark.parametrize("prediction", [p for p in PREDICTIONS if p.range.against], ids=lambda p: p.words)
def test_one_contradiction_is_enough(prediction):
    limits = prediction.range
    beyond = limits.too_low - 0.01 if np.isfinite(limits.too_low) else limits.too_high + 0.01
    seen = agreeing(prediction.hypothesis) | {prediction.observable: at(beyond)}
    smooth = prediction.hypothesis == "H7" or prediction.observable == "regime"
    expected = ("contradicted", "nothing to explain") if smooth else ("contradicted",)
    assert verdict(prediction.hypothesis, seen) in expected


def test_nothing_wins_because_nothing_was_tested():
    assert {v.verdict for v in judge(UNSEEN)} == {"can't tell"}
    only_slow = UNSEEN | {"regime": at(10.0)}
    assert {v.verdict for v in judge(only_slow)} == {"can't tell", "contradicted"}
    assert {v.hypothesis for v in judge(only_slow) if v.verdict == "contradicted"} == {"H7"}


def test_an_interval_that_straddles_a_limit_tells_nothing():
    gone = Range(high=0.35, too_high=0.85)
    assert [gone.outcome(at(*pair)) for pair in ((0.1, 0.1), (0.3, 0.1), (0.6, 0.1), (0.8, 0.1), (1.0, 0.1))] == [
        *("agrees", "can't tell", "can't tell", "can't tell", "disagrees"),
    ]
    assert gone.outcome(UNSEEN["regime"]) == "not tested"


@given(st.sampled_from(PREDICTIONS), st.floats(-5, 20), st.floats(0, 5), st.floats(0, 5))
def test_a_wider_interval_never_says_more(prediction, value, half, more):
    narrow, wide = (prediction.range.outcome(at(value, h)) for h in (half, half + more))
    assert wide in (narrow, "can't tell")


def test_no_regime_nothing_to_explain():
    calm = UNSEEN | {"regime": at(1.0), "first_pass": at(1.05, 0.5)}
    assert {v.verdict for v in judge(calm)} == {"nothing to explain"}
    for sign in ("first_pass", "running_slowdown"):
        assert "nothing to explain" not in {v.verdict for v in judge(calm | {sign: at(3.0, 0.5)})}


def test_what_another_brings_about_is_not_named():
    assert explaining(["H1", "H3"]) == ["H1"]
    assert explaining(["H3", "H4"]) == ["H3", "H4"]


# ---------------------------------------------------------------- simulated machines


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_mechanism_is_named_from_the_data_alone(truth):
    row = tally(truth, [name_mechanism(truth, run) for run in range(3)])
    assert row.misleading == 0
    assert row.wrong_out == 0
    assert row.right >= 2 / 3


@pytest.mark.parametrize("truth", MIXTURES)
def test_of_a_mixture_not_one_part_alone_is_named(truth):
    row = tally(truth, [name_mechanism(truth, run) for run in range(2)])
    assert row.misleading <= 1


def test_a_machine_comes_out_the_same_again():
    assert name_mechanism("swap, outside the pool", 7) == name_mechanism("swap, outside the pool", 7)


@pytest.fixture(scope="module")
def pool_machine():
    """A simulated machine whose pool is purged, and its judgement."""
    rng = np.random.default_rng(3)
    world = draw_world(frozenset({"pool", "purge"}), rng)
    requests, samples = simulate_study(world, machine_of("pool", world), rng)
    found = find_regimes(requests)
    return requests, samples, found


def judged(requests, samples, found, **left_out):
    """The judgement without the arms along some axes."""
    for axis in left_out:
        value = left_out[axis]
        found = replace(found, series=found.series.filter(pl.col(axis) != value))
    return judge_study(requests, samples, found.series, found.budgets, found.regimes)


def test_the_tables_of_a_judgement(pool_machine):
    tables = judged(*pool_machine)
    check_table(tables.hypotheses, HYPOTHESES, "test")
    check_table(tables.growth, GROWTH, "test")
    check_table(tables.mitigations, MITIGATIONS, "test")
    assert tables.hypotheses.height == len(PREDICTIONS)
    assert tables.hypotheses["machine"].unique().to_list()[0].startswith("simulated-")
    driver = tables.growth.filter(counter="torch_driver")
    kinds = dict(driver.select("over", "kind").iter_rows())
    assert kinds["length"] == "quadratic"
    assert kinds["requests"] == "flat"
    best, *_, worst = tables.mitigations.filter(pl.col("slowdown").is_not_null()).sort("rank").to_dicts()
    assert best["slowdown"] == pytest.approx(1, abs=0.15)
    assert worst["slowdown"] > 5


def test_untested_arms_leave_it_open(pool_machine):
    """Without the run whose cache is emptied, the pool is not shown; nothing else takes its place."""
    tables = judged(*pool_machine, between_requests="empty_cache")
    verdicts = dict(tables.hypotheses.select("hypothesis", "verdict").iter_rows())
    assert verdicts["H1"] == "can't tell"
    why = tables.hypotheses.filter(hypothesis="H1")["why"][0]
    assert why.startswith("not tested: at the onset, gone when the cache is emptied")
    assert verdicts["H1b"] == "supported"


def test_prices_of_arms_where_nothing_is_slow():
    rng = np.random.default_rng(1)
    world = World(frozenset(), memory_gb=192, usable_gb=165.0)
    requests, samples = simulate_study(world, machine_of("calm", world), rng)
    found = find_regimes(requests)
    tables = judge_study(requests, samples, found.series, found.budgets, found.regimes)
    assert set(tables.hypotheses["verdict"]) == {"nothing to explain"}
    assert tables.mitigations["slowdown"].null_count() == tables.mitigations.height
    eager = tables.mitigations.filter(axis="attention").row(0, named=True)
    assert eager["price_low"] <= 1.1 <= eager["price_high"]
    empty = tables.mitigations.filter(value="empty_cache").row(0, named=True)
    assert empty["price"] == pytest.approx(1, abs=0.05)


def test_a_study_without_arms_is_not_judged():
    rng = np.random.default_rng(1)
    world = draw_world(frozenset({"shape"}), rng)
    cells = [{**PLAIN, **PROTOCOL, "n_gen": n_gen} for n_gen in range(128, 769, 64)]
    requests, samples = simulate_cells(cells, world, machine_of("alone", world), STACK, rng)
    found = find_regimes(requests)
    tables = judge_study(requests, samples, found.series, found.budgets, found.regimes)
    assert tables.hypotheses.is_empty()
    assert tables.mitigations.is_empty()
    assert tables.growth.is_empty()


def test_an_undetermined_reference_supports_nothing(pool_machine):
    requests, samples, found = pool_machine
    one = found.regimes["series"].unique().to_list()
    doubted = found.series.with_columns(
        verdict=pl.when(pl.col("series").is_in(one)).then(pl.lit("undetermined")).otherwise("verdict")
    )
    budgets = found.budgets.with_columns(state=pl.lit("unclear"))
    (sight,) = sights(requests, samples, doubted, budgets, found.regimes.clear())
    assert named(judge(observe(sight))) == []
    tables = judge_study(requests, samples, doubted, budgets, found.regimes.clear())
    assert tables.mitigations["slowdown"].null_count() == tables.mitigations.height
    assert tables.mitigations["price"].null_count() == 0


def test_two_requests_that_were_both_stopped_say_nothing_of_an_arm():
    def curve(latency_s: float, *, bound: bool = False, regimes: tuple[Regime, ...] = ()) -> Curve:
        points = {n: Point(np.log(n / 100), 1e-4, np.log(n / 100), "normal", bound=False) for n in (128, 256, 384)}
        points[512] = Point(np.log(latency_s), 1e-4, np.log(5.12), "slow", bound=bound)
        return Curve({"series": "s", "verdict": "slow regimes"}, points, regimes)

    reference = curve(300.0, bound=True, regimes=(Regime(384, 512, 512, None),))
    assert effect_of(curve(300.0, bound=True), reference, priced=True).kept == {}
    assert effect_of(curve(5.2), reference, priced=True).kept[512][0] == pytest.approx(0, abs=0.01)


# ---------------------------------------------------------------- the page


def test_the_page_holds_the_rules_of_the_code(page):
    assert part_of(page, "rules") == rules_table()
    assert part_of(page, "hypotheses") == statements()


def test_the_page_s_confusion_table_agrees_with_a_small_version(page):
    """Shares in the page, at least 95 %, and the first machines of each kind."""
    rows = [line.split("|")[1:-1] for line in part_of(page, "confusion").splitlines() if line.startswith("| ")]
    told = {cells[0].strip(): cells for cells in rows if cells[0].strip() in TRUTHS | MIXTURES}
    assert set(told) == set(TRUTHS | MIXTURES)
    for truth in TRUTHS:
        runs, right = int(told[truth][2]), float(told[truth][3].rstrip(" %"))
        assert runs >= 200
        assert right >= 95
        assert name_mechanism(truth, 0).words in told[truth][6].replace(" + ", " ")


@pytest.fixture(scope="module")
def page(request):
    return (request.config.rootpath / "docs" / "mechanism.md").read_text()


def test_rows_of_the_page_are_replaced_by_their_first_cell():
    tables = "| a | n |\n|---|---|\n| one | 1 |\n| two | 2 |\n"
    assert with_rows(tables, "| a | n |\n|---|---|\n| two | 3 |\n") == tables.replace("| 2 |", "| 3 |")
