"""Small inputs with their right answers: what people met, and the finder once got wrong."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bench.requests import Run, requests_table
from speedbump.analyse.csv_table import findings_of_csv
from speedbump.analyse.curve import from_repeats
from speedbump.analyse.regimes import Findings, Row, find_regimes, findings_of_curves
from speedbump.analyse.wording import as_text

CASES = Path(__file__).parent / "data" / "cases"


@dataclass(frozen=True)
class Case:
    """One series: its row, its accepted regimes and steps, its budgets, and the text that is printed."""

    row: Row
    found: list[Row]
    budgets: pl.DataFrame
    text: str


def case_of(findings: Findings) -> Case:
    (row,) = findings.series.to_dicts()
    return Case(row, findings.regimes.filter("accepted").to_dicts(), findings.budgets, as_text(findings))


def case(name: str) -> Case:
    return case_of(findings_of_csv(CASES / f"{name}.csv"))


def edge(found: Row) -> tuple[int | None, int]:
    return found["onset_low"], found["onset_high"]


def test_a_step_that_stays_is_no_regime_that_ends():
    """Prefill with a kernel's limit at 64 tokens, lengths a factor of two apart."""
    seen = case("step-that-stays")
    (step,) = seen.found
    assert (seen.row["verdict"], seen.row["n_regimes"], step["kind"]) == ("step", 0, "step up")
    assert edge(step) == (32, 64)
    assert step["recovery_high"] is None
    assert step["slowdown"] == pytest.approx(5.2, rel=0.03)
    assert step["slowdown_low"] < 5.2 < step["slowdown_high"] < 7
    assert step["slowdown_neighbour"] == pytest.approx(5.2, rel=0.03)
    assert "a step at 64 tokens: 5.2 times as long from there on (95 %" in seen.text
    assert "stays so up to 2048" in seen.text
    assert "ends between" not in seen.text


@pytest.mark.parametrize(
    ("name", "factor", "bracket"),
    [
        ("mini-step-1.5", 1.5, (20480, 24576)),
        ("mini-step-2.0", 2.0, (20480, 24576)),
        *((f"step-flat-k{k}-r{r}", k, (28672, 30720)) for k in (1.5, 1.8, 2, 3) for r in (1, 5)),
        ("lin-step-1.5", 1.5, (480, 512)),
        ("lin-step-1.8", 1.8, (480, 512)),
        ("lin-step2-5reps", 2.0, (480, 512)),
    ],
)
def test_steps_on_flat_and_rising_curves(name, factor, bracket):
    """No end is invented where the trend alone would decide it, and 2.0 is 2.0 against the neighbour too."""
    seen = case(name)
    (step,) = seen.found
    assert (seen.row["verdict"], step["kind"]) == ("step", "step up")
    assert edge(step) == bracket
    assert step["recovery_high"] is None
    assert step["slowdown"] == pytest.approx(factor, rel=0.05)
    assert step["slowdown_neighbour"] == pytest.approx(factor, rel=0.05)


def test_a_spike_on_a_flat_curve_is_a_regime():
    seen = case("flat-spike2-5reps")
    assert [regime["kind"] for regime in seen.found] == ["regime"]


def test_a_cliff_of_two_lengths_may_end_beyond_what_was_measured():
    seen = case("cliff-at-the-end")
    (regime,) = seen.found
    assert (seen.row["verdict"], regime["kind"]) == ("excess", "regime")
    assert (regime["first_slow"], regime["last_slow"], regime["recovery_high"]) == (896, 1024, None)
    assert regime["slowdown"] > 10
    assert "beyond 1024" in seen.row["next"]


def test_a_regime_behind_prompts_recovers():
    seen = case("regime-behind-prompts")
    (regime,) = seen.found
    assert seen.row["verdict"] == "slow regimes"
    assert (*edge(regime), regime["recovery_low"], regime["recovery_high"]) == (12288, 16384, 16384, 20480)
    assert regime["slowdown"] == pytest.approx(4.3, rel=0.05)
    assert regime["slowdown_neighbour"] == pytest.approx(4.3, rel=0.05)


def test_one_slow_single_request_is_measured_again():
    """Neither a regime, nor is the length beyond it too fast."""
    seen = case("one-slow-single")
    assert seen.row["verdict"] == "undetermined"
    assert "at 16384 tokens" in seen.row["reason"]
    assert seen.row["next"] == "Measure 16384 again, in another process."


def test_two_states_at_one_length_are_both_named():
    seen = case("two-states-at-one-length")
    assert seen.row["verdict"] == "undetermined"
    assert re.search(
        r"at 12288 tokens: 3 of 6 requests slow, 10\.\d s, the others 4\.8\d s: two levels 2\.2 times apart",
        seen.row["reason"],
    )
    assert seen.budgets.filter(pl.col("n_gen") != 12288)["state"].unique().to_list() == ["normal"]


@pytest.mark.parametrize("name", ["quiet-first-look", "single-requests"])
def test_smooth_curves_are_smooth(name):
    seen = case(name)
    assert (seen.row["verdict"], seen.row["reason"], seen.found) == ("smooth", None, [])


@pytest.mark.parametrize("times", [3, 5, 10, 30])
def test_a_last_length_that_would_pass_for_a_bend_is_not_smooth(times):
    """Five lengths, four times apart: nothing larger shows whether it returns."""
    seen = case(f"depth5-last-x{times}")
    assert seen.row["verdict"] == "undetermined"
    assert "65536" in seen.row["reason"]
    assert "beyond 65536" in seen.row["next"]


@pytest.mark.parametrize("last", [768, 800, 1024])
def test_a_last_length_near_the_one_before_is_guarded(last):
    budgets = np.array([128, 256, 384, 512, 640, last])
    rng = np.random.default_rng(0)
    curve = from_repeats(budgets, [(0.1 + 0.01 * n) * np.exp(rng.normal(0, 0.02, 5)) for n in budgets])
    assert findings_of_curves({"s": curve}).series["verdict"].item() == "smooth"


@pytest.mark.parametrize(("name", "n_budgets"), [("fast-outlier", 14), ("lin-fast-outlier", 28)])
def test_a_length_too_fast_is_set_aside_and_the_rest_judged(name, n_budgets):
    seen = case(name)
    assert (seen.row["verdict"], seen.row["n_budgets"], seen.found) == ("smooth", n_budgets, [])
    assert re.search(
        r"at 512 tokens: suspiciously fast, [45]\.\d times below the trend: look at it", seen.row["reason"]
    )
    assert "Measure 512 again" in seen.row["next"]
    assert seen.budgets.filter(n_gen=512)["state"].item() == "unclear"
    assert seen.budgets.filter(pl.col("n_gen") != 512)["state"].unique().to_list() == ["normal"]


def test_a_normal_length_between_two_regimes_is_not_too_fast(make_curve):
    found = findings_of_curves({"s": make_curve({480: 8.0, 544: 8.0})})
    assert found.series["n_budgets"].item() == 21
    assert found.regimes["first_slow"].to_list() == [480, 544]


def test_regimes_beside_a_length_too_fast_are_found(make_curve):
    seen = case_of(findings_of_curves({"s": make_curve({512: 8.0, 544: 8.0, 256: 0.2})}))
    assert [(r["first_slow"], r["last_slow"]) for r in seen.found] == [(512, 544)]
    assert (seen.row["verdict"], seen.row["n_budgets"]) == ("slow regimes", 20)
    assert "at 256 tokens: suspiciously fast" in seen.row["reason"]


@pytest.mark.parametrize("name", ["lin-saw-16", "pub-spike1.8", "served-random-lengths-slow"])
def test_a_fall_is_shown_whatever_its_size(name):
    """1.6 times at 512 and normal at 513; and 500 to 559 slow in served traffic, a request each."""
    seen = case(name)
    assert seen.row["verdict"] == "slow regimes"
    assert seen.row["falls"]
    assert f"latency falls by {seen.row['fall_ratio']:.2f} from" in seen.text


def test_where_every_length_was_measured_nothing_narrower_is_spoken_of():
    assert "narrower" not in case("lin-saw-16").text


def test_processes_that_differ_are_not_called_a_busy_machine():
    """Two passes, the second slower by 1.6: no sentinel says that the machine was busy."""
    seen = case("two-passes")
    assert seen.row["verdict"] == "undetermined"
    assert "processes differ by 1.6" in seen.row["reason"]
    assert "the machine was busy" not in seen.text


GUARD = "stopped by the memory guard: swap grew by 4.2 GiB, the limit is 4"
LIMIT = "stopped by the request limit of 60 s"


def stopped_curve(budgets: list[int], known: int, share: float, message: str) -> pl.DataFrame:
    """A normal curve of which only the first ``known`` lengths finished."""
    rng = np.random.default_rng(1)
    runs = []
    for n in budgets[:known]:
        times = (0.1 + 0.01 * n) * np.exp(rng.normal(0, 0.02, 5))
        runs.append(Run("s", n, tuple(map(float, times))))
    for n in budgets[known:]:
        changes = (("message", message),)
        runs.append(Run("s", n, (share * (0.1 + 0.01 * n),), status="stopped", lower_bound=True, changes=changes))
    return requests_table(runs)


COARSE, SCAN = list(range(128, 769, 128)), list(range(128, 769, 32))


@pytest.mark.parametrize("share", [0.4, 0.8, 1.0])
@pytest.mark.parametrize(("budgets", "known", "first"), [(COARSE, 2, 384), (SCAN, 8, 384), (COARSE, 1, 256)])
def test_lengths_stopped_before_their_normal_time_are_not_smooth(budgets, known, first, share):
    row = find_regimes(stopped_curve(budgets, known, share, GUARD)).series.row(0, named=True)
    assert row["verdict"] == "undetermined"
    assert row["reason"].startswith(f"from {first} tokens nothing finished, stopped by the memory guard")
    assert row["next"].startswith(f"For lengths beyond {budgets[known - 1]}, take a smaller model or half-precision")
    assert (row["n_budgets"], row["n_gen_max"]) == (known, budgets[known - 1])
    assert (row["stopped_from"], row["stopped_by"]) == (first, "stopped by the memory guard")


def test_the_request_limit_is_named():
    row = find_regimes(stopped_curve(SCAN, 18, 0.9, LIMIT)).series.row(0, named=True)
    assert row["reason"] == "from 704 tokens nothing finished, stopped by the request limit of 60 s"
    assert "allow a request more time" in row["next"]


def test_a_regime_within_what_finished_is_still_reported(make_requests):
    slow = make_requests(dict.fromkeys(range(320, 417, 32), 10.0)).filter(pl.col("n_gen") < 600)
    stopped = stopped_curve(SCAN, 16, 0.7, GUARD).filter(pl.col("n_gen") > 600)
    found = find_regimes(pl.concat([slow, stopped]))
    row = found.series.row(0, named=True)
    assert row["verdict"] == "slow regimes"
    assert "nothing finished, stopped by the memory guard" in row["reason"]
    assert found.regimes.select("first_slow", "last_slow").rows() == [(320, 416)]


def test_a_length_stopped_after_a_slow_time_is_slow():
    found = find_regimes(stopped_curve(SCAN, 15, 12.0, GUARD))
    assert found.series["stopped_from"].item() is None
    assert found.regimes["first_slow"].to_list() == [608]


def step_curve(factor: float, at: int, budgets: np.ndarray, seed: int = 0, sd: float = 0.02):
    rng = np.random.default_rng(seed)
    latency = (0.1 + 0.01 * budgets) * np.where(budgets >= at, factor, 1.0)
    return from_repeats(budgets, [t * np.exp(rng.normal(0, sd, 5)) for t in latency])


@pytest.mark.parametrize("factor", [0.2, 0.5, 0.6])
@pytest.mark.parametrize("budgets", [np.arange(128, 1025, 32), 2.0 ** np.arange(4, 14)], ids=["dense", "doubling"])
def test_a_step_down(budgets, factor):
    at = 512
    seen = case_of(findings_of_curves({"s": step_curve(factor, at, budgets)}))
    (step,) = seen.found
    assert (seen.row["verdict"], step["kind"]) == ("step", "step down")
    before = int(budgets[budgets < at][-1])
    assert (step["recovery_low"], step["recovery_high"], step["onset_low"]) == (before, at, None)
    assert step["slowdown"] == pytest.approx(1 / factor, rel=0.06)
    assert f"a step at {at} tokens: {factor:.2f}"[:-1] in seen.text


@pytest.mark.parametrize(("at", "kind"), [(384, "step up"), (672, "regime")])
def test_a_step_needs_room_on_both_sides(at, kind):
    """From 672 to 768 tokens it may as well be a regime that ends beyond: known ones are as short."""
    seen = case_of(findings_of_curves({"s": step_curve(3.0, at, np.arange(128, 769, 32))}))
    assert [found["kind"] for found in seen.found] == [kind]
    assert seen.row["verdict"] == ("step" if kind == "step up" else "excess")


def test_a_regime_beside_a_step_is_told_as_well():
    budgets = np.arange(128, 1025, 32)
    rng = np.random.default_rng(2)
    slow = np.where(budgets >= 512, 2.0, 1.0) * np.where((budgets >= 256) & (budgets <= 288), 6.0, 1.0)
    curve = from_repeats(budgets, [t * np.exp(rng.normal(0, 0.02, 5)) for t in (0.1 + 0.01 * budgets) * slow])
    seen = case_of(findings_of_curves({"s": curve}))
    assert seen.row["verdict"] == "slow regimes"
    found = {regime["kind"]: (regime["first_slow"], regime["last_slow"]) for regime in seen.found}
    assert found == {"regime": (256, 288), "step up": (512, 1024)}


@pytest.mark.parametrize("seed", range(5))
def test_a_bend_is_no_step(seed):
    """The rate doubles at 512 tokens, and nothing jumps."""
    budgets = np.arange(128, 1025, 32)
    rng = np.random.default_rng(seed)
    latency = 0.02 * np.minimum(budgets, 512) + 0.04 * np.maximum(budgets - 512, 0)
    curve = from_repeats(budgets, [t * np.exp(rng.normal(0, 0.02, 5)) for t in latency])
    assert findings_of_curves({"s": curve}).regimes.is_empty()
