"""Pairs of series: which are compared, which way round, and what the ratio says."""

import math

import polars as pl
import pytest

from speedbump.analyse.comparisons import compare_series
from speedbump.grid.axes import DEFAULTS
from speedbump.tables import BUDGETS, COMPARISONS, REQUESTS, SERIES, check_table


def study(*curves: dict) -> pl.DataFrame:
    """The comparisons of curves: axes, with ``name``, and ``latency`` by budget (None: stopped at 100 s)."""
    series, budgets, requests = [], [], []
    for curve in curves:
        axes = {**DEFAULTS, "device": "mps", "machine": "m3-36gb", "stack": "torch-2", **curve}
        series.append({"series": curve["name"], **{k: v for k, v in axes.items() if k in SERIES.schema}})
        for n_gen, latency in curve["latency"].items():
            known = {} if latency is None else {"low_s": latency / 1.1, "high_s": latency * 1.1}
            point = {"series": curve["name"], "n_gen": n_gen, "latency_s": latency or 100.0, "lower_bound": not latency}
            budgets.append({**point, **known})
            told = {"status": "ok", "phase": "measured", "tokens_hash": curve.get("tokens", "same")}
            requests += [{"series": curve["name"], "n_gen": n_gen, **told}] * 2
    frames = (
        pl.DataFrame(rows, schema=table.schema)
        for rows, table in ((requests, REQUESTS), (series, SERIES), (budgets, BUDGETS))
    )
    return check_table(compare_series(*frames), COMPARISONS, "comparisons")


def test_cache_off_stands_over_cache_on_with_an_interval():
    (row,) = study(
        {"name": "on", "latency": {128: 1.0, 256: 2.0}},
        {"name": "off", "kv_cache": "off", "latency": {128: 5.0}, "tokens": "others"},
    ).to_dicts()
    assert (row["axis"], row["over_value"], row["under_value"], row["n_gen"]) == ("kv_cache", "off", "dynamic", 128)
    assert row["ratio"] == pytest.approx(5)
    assert row["high"] == pytest.approx(5 * math.exp(math.sqrt(2) * math.log(1.1)))
    assert row["low"] == pytest.approx(25 / row["high"])
    assert row["same_tokens"] is False


@pytest.mark.parametrize(
    ("change", "axis", "over"),
    [
        ({"device": "cpu"}, "device", "cpu"),
        ({"n_prompt": 3}, "n_prompt", "3"),
        ({"instrument": "per_step"}, "instrument", "per_step"),
        ({"lifetime": "persistent", "order": "shuffled"}, "lifetime", "persistent, shuffled"),
        ({"between_requests": "empty_cache"}, "lifetime", "fresh, empty_cache"),
    ],
)
def test_the_less_usual_value_stands_above(change, axis, over):
    (row,) = study({"name": "a", "latency": {8: 1.0}}, {"name": "b", **change, "latency": {8: 2.0}}).to_dicts()
    assert (row["axis"], row["over_value"]) == (axis, over)
    assert row["same_tokens"]


@pytest.mark.parametrize("change", [{"device": "cpu", "kv_cache": "off"}, {"machine": "m4-48gb"}, {"stack": "torch-3"}])
def test_series_that_differ_in_more_or_in_the_place_are_not_compared(change):
    assert study({"name": "a", "latency": {8: 1.0}}, {"name": "b", **change, "latency": {8: 2.0}}).is_empty()


def test_a_bound_on_one_side_bounds_the_ratio_and_on_both_says_nothing():
    over, under = (
        study(
            {"name": "on", "latency": {128: 10.0, 256: None, 512: None}},
            {"name": "off", "kv_cache": "off", "latency": {128: None, 256: 300.0, 512: None}},
        )
        .sort("n_gen")
        .to_dicts()
    )
    assert (over["n_gen"], over["ratio"], over["bound"], over["high"]) == (128, 10.0, "at least", None)
    assert 9 < over["low"] < 10
    assert (under["n_gen"], under["bound"], under["low"]) == (256, "at most", None)
    assert under["ratio"] == pytest.approx(3)
    assert under["high"] == pytest.approx(3.3)


def test_without_series_there_is_an_empty_table():
    assert study().is_empty()
