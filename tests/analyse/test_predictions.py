"""Predicted onsets beside published and simulated ones."""

import math
from pathlib import Path

import pytest

from speedbump.analyse.claims.evidence import Evidence, Point, Regime, Series
from speedbump.analyse.claims.published import published_evidence
from speedbump.analyse.confidence import Interval
from speedbump.analyse.mechanism.predictions import fit_threshold, prediction_rows
from speedbump.grid.axes import DEFAULTS
from speedbump.grid.models import load_models
from speedbump.grid.onset import GIB

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def published():
    models = load_models(ROOT / "config/models")
    return prediction_rows([published_evidence(ROOT / "config/reference")], models)


def test_the_paper_s_onsets_are_where_the_formula_puts_them(published):
    told = {(row["model"], row["n_prompt"]): row["outcome"] for row in published if row["outcome"] in ("hit", "miss")}
    assert told == {
        ("gpt2-medium", 65): "hit",
        ("gpt2-medium", 3): "hit",
        ("gpt2-large", 65): "hit",
        ("opt-350m", 65): "hit",
        ("bloom-560m", 65): "hit",
    }


def test_needs_at_the_edges_are_those_of_the_published_comparison(published):
    probe = next(row for row in published if (row["model"], row.get("onset_low")) == ("gpt2-medium", 496))
    assert (probe["need_low_gib"], probe["need_high_gib"]) == pytest.approx((29.7, 31.4), abs=0.05)
    large = next(row for row in published if row["model"] == "gpt2-large" and row.get("onset_low"))
    assert (large["need_low_gib"], large["need_high_gib"]) == pytest.approx((19.8, 36.7), abs=0.05)


def test_one_threshold_fits_the_five_onsets(published):
    """Between 29.7 and 31.3 GiB; five configurations, however often each was measured."""
    fitted = {
        (row["fitted_n"], row["fitted_low_gib"], row["fitted_high_gib"]) for row in published if row.get("onset_high")
    }
    ((n, low, high),) = {row for row in fitted if row[1]}
    assert n == 5
    assert (low, high) == pytest.approx((29.7, 31.3), abs=0.05)


def test_what_the_hypothesis_is_not_about_is_not_predicted(published):
    about = {row["device"]: row["why"] for row in published if row["outcome"] == "not predicted"}
    assert set(about) == {"cpu", "cuda", "mps"}  # on MPS: without a cache
    assert all(
        row["kv_cache"] == "off" for row in published if row["outcome"] == "not predicted" and row["device"] == "mps"
    )


def test_each_stack_has_a_threshold_of_its_own():
    """One onset on each stack is no threshold, whatever both together would leave."""
    point = Point(Interval(1.0, 0.9, 1.1), True, "normal", None, None, None, None)

    def series(stack, model, onset):
        axes = {**DEFAULTS, "model": model, "device": "mps", "instrument": "step_sync"}
        regime = Regime(onset, onset + 64, onset - 32, onset, onset + 64, None, 9.0)
        return Series(axes, "m3-36gb", stack, "slow regimes", None, dict.fromkeys((128, 768), point), (regime,))

    medium, large = series("old", "gpt2-medium", 512), series("new", "gpt2-large", 320)
    again = series("new", "gpt2-medium", 512)
    models = load_models(ROOT / "config/models")

    def fitted(*every):
        rows = prediction_rows([Evidence(False, every, every)], models)
        return {(row["stack"], row["fitted_n"]) for row in rows}

    assert fitted(medium, large) == {("old", 1), ("new", 1)}
    assert fitted(medium, large, again) == {("old", 1), ("new", 2)}


def test_a_threshold_needs_two_onsets_that_agree():
    one, two = ("a",), ("b",)
    wide, narrow, apart = (10 * GIB, 30 * GIB), (20 * GIB, 22 * GIB), (40 * GIB, 50 * GIB)
    assert fit_threshold([(one, narrow), (one, wide)])["fitted_low_gib"] is None
    assert fit_threshold([(one, narrow), (two, wide)]) == {
        "fitted_n": 2,
        "fitted_low_gib": 20,
        "fitted_high_gib": 22,
    }
    assert fit_threshold([(one, narrow), (two, apart)])["fitted_high_gib"] is None
    smooth = (21 * GIB, math.inf)
    assert fit_threshold([(one, narrow), (two, wide), (("c",), smooth)])["fitted_low_gib"] == 21
    assert fit_threshold([])["fitted_n"] == 0
