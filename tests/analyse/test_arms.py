"""Which curve is the reference, and which are its arms: on made-up curves of which only the axes matter."""

import math
from dataclasses import replace

import polars as pl
import pytest

from speedbump.analyse.mechanism.arms import Curve, Point, find_references
from speedbump.analyse.mechanism.mitigations import mitigation_rows
from speedbump.analyse.mechanism.sight import Sight
from speedbump.grid.axes import AXES, DEFAULTS

PLACE = {"machine": "m", "stack": "s", "model": "gpt2", "device": "mps"}


def curve(**axes) -> Curve:
    name = ", ".join(f"{axis} {value}" for axis, value in axes.items()) or "plain"
    row = {**DEFAULTS, **PLACE, "instrument": "step_sync", **axes, "series": name}
    return Curve(row, {128: Point(math.log(1.0), 1e-4, None, "normal", bound=False)}, ())


ARMS = [curve(), curve(kv_cache="static"), curve(attention="eager"), curve(n_prompt=3)]


def test_the_reference_is_the_curve_that_the_study_is_around():
    beside = [curve(instrument="free_running"), curve(instrument="free_running", kv_cache="static")]
    (most,) = find_references([*ARMS, *beside])
    assert most.curve.series == "plain"
    (chosen,) = find_references([*ARMS, *beside], {"instrument": "free_running", "n_prompt": 65, "model": "gpt2"})
    assert chosen.curve.series == "instrument free_running"
    (absent,) = find_references(ARMS, {"n_prompt": 7, "instrument": "step_sync"})
    assert absent.curve.series == "plain"


def test_every_instrument_of_a_curve_has_a_rank():
    instruments = [
        name for name in next(axis.values for axis in AXES if axis.name == "instrument") if name != "profile"
    ]
    (reference,) = find_references([*(curve(instrument=name) for name in instruments), *ARMS[1:]])
    assert reference.curve.row["instrument"] == "step_sync"


def test_no_reference_where_no_curve_is_plain():
    assert find_references([curve(attention="eager"), curve(attention="eager", kv_cache="static")]) == []


def test_a_harness_is_compared_with_the_plain_curve_observed_like_it():
    free, made = curve(instrument="free_running"), curve(instrument="free_running", harness="generate")
    (reference,) = find_references([*ARMS, free, made], {"instrument": "step_sync"})
    arm = reference.arm("harness", "generate")
    assert (arm.curve, arm.base) == (made, free)
    assert {arm.base.series for arm in reference.arms if arm.axis != "harness"} == {"plain"}
    (alone,) = find_references([*ARMS, made])
    assert alone.along("harness") == []


def test_a_persistent_process_is_an_arm_along_its_order():
    apart = curve(lifetime="persistent", order="shuffled")
    (reference,) = find_references([*ARMS, apart, curve(lifetime="persistent", kv_cache="static")])
    assert [(arm.value, arm.curve) for arm in reference.along("order")] == [("shuffled", apart)]


def test_the_price_of_a_harness_is_over_the_curve_observed_like_it():
    """At every length generate() takes 1.5 times the free-running curve, which takes half the reference's time."""

    def line(factor, **axes):
        points = {n: Point(math.log(factor * n), 1e-4, None, "normal", bound=False) for n in (128, 256, 384)}
        return replace(curve(**axes), points=points)

    plain, free = line(1.0), line(0.5, instrument="free_running")
    made = line(0.75, instrument="free_running", harness="generate")
    (reference,) = find_references([plain, free, made, line(1.0, kv_cache="static")])
    rows = {row["axis"]: row for row in mitigation_rows(Sight(reference, pl.DataFrame(), pl.DataFrame()))}
    assert rows["harness"]["price"] == pytest.approx(1.5)
    assert rows["instrument"]["price"] == pytest.approx(0.5)
    assert rows["harness"]["reference"] == "plain"
