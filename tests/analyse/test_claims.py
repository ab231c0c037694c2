"""The paper's claims on its own published figures: what the rules give is what its tables say."""

import csv
import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from speedbump.analyse.claims.check import CHECKS, check_claims, read_claims
from speedbump.analyse.claims.evidence import AbsentError, Evidence
from speedbump.analyse.claims.published import published_evidence, published_seconds
from speedbump.analyse.confidence import Interval
from speedbump.analyse.ratio import latency_ratio
from speedbump.tables import OUTCOMES

REFERENCE = Path(__file__).parents[2] / "config" / "reference"
NOT_TABULATED = {"C6", "C10", "C13", "C18", "C19"}


def read(name: str) -> list[dict]:
    with (REFERENCE / f"hendria2026_{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def mean(experiment: str, model: str, budget: int, backend="mps", kv_cache="on", prompt=65) -> float:
    """The published latency, straight from the file."""
    wanted = (experiment, model, backend, kv_cache, str(prompt), str(budget))
    columns = ("experiment", "model", "backend", "kv_cache", "prompt_tokens", "budget_tokens")
    (row,) = (row for row in read("latency") if tuple(row[name] for name in columns) == wanted)
    return float(row["latency_s_mean"])


def off_over_on(budget: int) -> float:
    return mean("kv_cache", "gpt2-medium", budget, kv_cache="off") / mean("kv_cache", "gpt2-medium", budget)


def memory(column: str) -> dict[int, float]:
    return {int(row["budget_tokens"]): float(row[column]) for row in read("memory")}


def expected() -> dict[str, list[float]]:
    """The statistic of each claim whose figures are tabulated, by plain arithmetic."""
    probe = {int(r["budget_tokens"]): float(r["latency_s_mean"]) for r in read("latency") if r["experiment"] == "probe"}
    slow = [budget for budget, latency in probe.items() if latency > 50]
    outside = [off_over_on(budget) for budget in (128, 256, 384, 640, 768)]
    live = memory("peak_mps_current_allocated_mb")
    system = memory("peak_system_used_mb")
    models = ("distilgpt2", "gpt2", "gpt2-medium", "gpt2-large")
    gains = [mean("crossover", model, 128, backend="cpu") / mean("crossover", model, 128) for model in models]
    return {
        "C1": [mean("baseline", "gpt2-large", 384) / mean("baseline", "gpt2-large", 256)],
        "C2": [mean("baseline", "gpt2-medium", 512) / mean("baseline", "gpt2-medium", 384)],
        "C3": [min(slow), max(slow)],
        "C4": [probe[512] / probe[496]],
        "C5": [probe[624] / probe[640]],
        "C7": [min(outside), max(outside)],
        "C8": [off_over_on(512)],
        "C9": [
            mean("kv_cache", "gpt2-medium", 512, kv_cache="off") / mean("kv_cache", "gpt2-medium", 640, kv_cache="off")
        ],
        "C11": [max(abs(b - a - 25) for a, b in pairwise(live.values()))],
        "C12": [system[640] - system[512]],
        "C14": [0],
        "C15": [2, 2],
        "C16": [
            mean("prompt_length", "gpt2-medium", 512) / mean("prompt_length", "gpt2-medium", 512, prompt=3),
        ],
        "C17": [mean("prompt_length", "gpt2-medium", 640, prompt=prompt) for prompt in (3, 65)],
        "C20": [384, 512],
        "C21": gains,
    }


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return published_evidence(REFERENCE)


@pytest.fixture(scope="module")
def answers(evidence) -> dict[str, dict]:
    table = check_claims(read_claims(REFERENCE), evidence)
    return {row["claim_id"]: row for row in table.to_dicts()}


@pytest.mark.parametrize("claim", [claim for claim in CHECKS if claim not in NOT_TABULATED])
def test_the_rules_give_the_published_values(answers, claim):
    answer = answers[claim]
    assert answer["values"] == pytest.approx(expected()[claim], rel=1e-9)
    printed = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", answer["paper_value"])]
    digits = [len(number.partition(".")[2]) for number in re.findall(r"\d+(?:\.\d+)?", answer["paper_value"])]
    # the paper rounds 5 in both directions
    for value, number, places in zip(answer["values"], printed, digits, strict=True):
        assert value == pytest.approx(number, abs=0.51 * 10**-places)


def test_what_is_only_stated_says_so(answers):
    assert {claim for claim, row in answers.items() if row["outcome"] == "stated, not tabulated"} == NOT_TABULATED
    assert all(answers[claim]["values"] == [] and "needs" in answers[claim]["why"] for claim in NOT_TABULATED)


def test_the_published_figures_do_not_decide_c9_and_c14(answers):
    undecided = {claim for claim, row in answers.items() if row["outcome"] == "can't tell"}
    assert undecided == {"C9", "C14"}
    assert answers["C9"]["low"] < 1.1 < answers["C9"]["high"]
    assert all(row["outcome"] == "holds" for claim, row in answers.items() if claim not in undecided | NOT_TABULATED)


def test_without_a_published_sd_no_interval_is_shown(answers):
    for claim in ("C4", "C5", "C16"):
        assert answers[claim]["low"] is None
        assert "assumed" in answers[claim]["why"]
    assert answers["C2"]["low"] < answers["C2"]["values"][0] < answers["C2"]["high"]


def test_a_published_sd_is_inflated_to_a_samples(evidence):
    """0.06 of 5.12 s over 5 requests: by hand, with the larger sd and before moderation, 1.3 % of error."""
    series = evidence.series(384, 512, model="gpt2-medium", device="mps", instrument="step_sync")
    latency = series.points[384].latency
    half = math.log(latency.high / latency.value)
    assert half > 2 * 0.06 * math.sqrt(5 / 4) / math.sqrt(5) / 5.12
    assert latency.value == 5.12


def test_every_row_is_whole(answers):
    assert list(answers) == list(CHECKS)
    for row in answers.values():
        assert row["outcome"] in OUTCOMES
        assert row["rule"].startswith("Holds where")
        assert row["why"]
        assert row["machine"] is None


def without_regimes(evidence: Evidence) -> Evidence:
    """The same evidence, had nothing been slow."""
    every = tuple(
        replace(
            series,
            verdict="smooth",
            regimes=(),
            points={n: replace(point, state="normal") for n, point in series.points.items()},
        )
        for series in evidence.here
    )
    return Evidence(False, every, every)


def test_on_smooth_curves_the_claims_on_regimes_differ(evidence):
    table = check_claims(read_claims(REFERENCE), without_regimes(evidence), "a-36gb", "torch-9")
    outcomes = dict(table.select("claim_id", "outcome").rows())
    regime_claims = ("C1", "C2", "C3", "C4", "C5", "C8", "C12", "C15", "C16", "C17", "C20")
    assert {claim: outcomes[claim] for claim in regime_claims} == dict.fromkeys(regime_claims, "differs")


def test_without_mps_its_claims_are_not_measured(evidence):
    here = tuple(replace(s, axes={**s.axes, "device": "cuda"}) for s in evidence.here if s.axes["device"] == "mps")
    table = check_claims(read_claims(REFERENCE), Evidence(False, here, here), "a", "b")
    outcomes = dict(table.select("claim_id", "outcome").rows())
    assert outcomes.pop("C14") == "differs"
    assert set(outcomes.values()) == {"not measured"}


def moved(evidence: Evidence, machine: str, stack: str) -> tuple:
    return tuple(replace(series, machine=machine, stack=stack) for series in evidence.here)


def test_several_stacks_and_machines_are_compared(evidence):
    old, new = moved(evidence, "m3-36gb", "torch-2.8"), moved(evidence, "m3-36gb", "torch-2.9")
    check = CHECKS["C19"](Evidence(False, new, old + new))
    assert (check.outcome, check.values) == ("holds", (2.0, 2.0))
    cured = tuple(replace(series, verdict="smooth", regimes=()) for series in new)
    check = CHECKS["C19"](Evidence(False, new, old + cured))
    assert (check.outcome, check.values) == ("differs", (1.0, 2.0))

    small_models = [replace(s, axes={**s.axes, "model": "gpt2"}) for s in old if s.model == "gpt2-medium"]
    small = tuple(replace(series, machine="m3-18gb") for series in small_models)
    large = tuple(replace(series, verdict="smooth", regimes=()) for series in small_models)
    check = CHECKS["C18"](Evidence(False, large, small + large))
    assert (check.outcome, check.values) == ("holds", (1.0,))
    assert CHECKS["C18"](Evidence(False, large, large + moved(Evidence(False, large, large), "m3-18gb", "x"))).outcome \
        == "differs"  # fmt: skip


def test_another_version_of_anything_but_pytorch_is_no_second_version(evidence):
    old, new = (moved(evidence, "m3-36gb", f"macos-15_torch-2.13.0_transformers-{v}") for v in ("5.17.0", "5.24.0"))
    with pytest.raises(AbsentError, match="two versions of PyTorch"):
        CHECKS["C19"](Evidence(False, new, old + new))
    newer = moved(evidence, "m3-36gb", "macos-15_torch-2.14.0_transformers-5.24.0")
    assert CHECKS["C19"](Evidence(False, new, old + new + newer)).values == (2.0, 2.0)


def test_chips_are_compared_where_they_are(evidence):
    """A machine beside the two that are compared answers nothing."""
    models = [replace(s, axes={**s.axes, "model": "gpt2"}) for s in evidence.here if s.model == "gpt2-medium"]
    small, large, other = (tuple(replace(s, machine=m) for s in models) for m in ("m1-16gb", "m3-64gb", "m3-36gb"))
    with pytest.raises(AbsentError, match="compares m1-16gb with m3-64gb"):
        CHECKS["C18"](Evidence(False, other, small + large + other))
    assert CHECKS["C18"](Evidence(False, small, small + large + other)).values == (1.0,)


def test_the_published_latencies_took_hours():
    """Three warm-ups and n measured requests behind every figure."""
    spent = dict.fromkeys(("M3 Max", "NVIDIA T4"), 0.0)
    for row in read("latency"):
        spent[row["chip"]] += float(row["latency_s_mean"]) * (3 + int(row["n"]))
    assert published_seconds(REFERENCE) == pytest.approx(spent)


def test_the_readme_says_these_numbers(answers):
    text = " ".join((REFERENCE.parents[1] / "README.md").read_text().split())
    assert f"took {published_seconds(REFERENCE)['M3 Max'] / 3600:.1f} hours" in text
    c9 = answers["C9"]
    assert f"{c9['value']} times, 95 % from {c9['low']:.2f} to {c9['high']:.2f}" in text


def test_a_ratio_over_a_bound_has_no_upper_end_and_under_one_is_unknown():
    bound, normal = Interval(300.0, 300.0, math.nan), Interval(10.0, 9.0, 11.0)
    ratio = latency_ratio(bound, normal)
    assert (ratio.value, math.isnan(ratio.high)) == (30.0, True)
    assert ratio.low == pytest.approx(30 * 10 / 11)
    assert latency_ratio(normal, bound) is None
    assert latency_ratio(normal, normal).high == pytest.approx(math.exp(math.hypot(math.log(1.1), math.log(10 / 9))))
