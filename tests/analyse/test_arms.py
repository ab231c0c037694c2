"""Which curve is the reference, and which are its arms: on made-up curves of which only the axes matter."""

import math

from speedbump.analyse.mechanism.arms import Curve, Point, find_references
from speedbump.grid.axes import DEFAULTS

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


def test_no_reference_where_no_curve_is_plain():
    assert find_references([curve(attention="eager"), curve(attention="eager", kv_cache="static")]) == []
