"""The published tables of config/reference give the regimes that their authors saw, and no others."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from speedbump.analyse.curve import Curve, from_published
from speedbump.analyse.segments import dissect
from speedbump.analyse.verdict import judge

TABLE = Path(__file__).parents[2] / "config" / "reference" / "hendria2026_latency.csv"


def published(backend: str = "mps", **where: object) -> Curve:
    """A published series. Its standard deviations are of the population of 5 requests: sample ones are larger."""
    rows = pl.read_csv(TABLE).filter(backend=backend, **where).sort("budget_tokens")
    sd = rows["latency_s_sd"].cast(pl.Float64).fill_null(np.nan).to_numpy() * np.sqrt(5 / 4)
    return from_published(rows["budget_tokens"].to_numpy(), rows["latency_s_mean"].to_numpy(), sd, rows["n"].to_numpy())


CASES = {
    "gpt2-medium, coarse": ({"experiment": "kv_cache", "kv_cache": "on"}, "slow regimes", (512, 512), 12.4, 9.4),
    "gpt2-medium, fine": ({"experiment": "probe"}, "slow regimes", (512, 624), 10.7, None),
    "gpt2-medium, 3 budgets": (
        {"experiment": "baseline", "model": "gpt2-medium"},
        "slow regimes",
        (512, 512),
        12.2,
        9.7,
    ),
    "gpt2-large": ({"experiment": "baseline", "model": "gpt2-large"}, "slow regimes", (384, 384), 14.5, 11.1),
    "bloom-560m": ({"experiment": "families", "model": "bloom-560m"}, "slow regimes", (512, 640), 4.0, 2.55),
    "opt-350m": ({"experiment": "families", "model": "opt-350m"}, "slow regimes", (512, 512), 8.6, 6.05),
    "gpt2-medium, cache off": ({"experiment": "kv_cache", "kv_cache": "off"}, "excess", (512, 512), 2.0, 1.18),
}


@pytest.mark.parametrize("name", CASES)
def test_regime_of_a_published_series(name):
    where, verdict, span, slowdown, neighbour = CASES[name]
    curve = published(**where)
    anatomy = dissect(curve)
    (segment,) = anatomy.segments
    assert judge(anatomy).verdict == verdict
    assert segment.accepted
    assert (curve.budget[segment.first], curve.budget[segment.last]) == span
    assert segment.slowdown.value == pytest.approx(slowdown, rel=0.05)
    assert segment.slowdown.low < slowdown < segment.slowdown.high
    if neighbour:
        assert segment.neighbours.ratio == pytest.approx(neighbour, rel=0.02)


def test_brackets_of_the_fine_sweep():
    curve = published(experiment="probe")
    (segment,) = dissect(curve).segments
    brackets = [curve.budget[i] for i in (*segment.brackets.onset, *segment.brackets.recovery)]
    assert brackets == [496, 512, 624, 640]


def test_bloom_has_one_level_against_the_trend():
    """134.6 s after 80.8 s is 1.67 times, but the trend rises as well: 3.5 and 4.3 times it."""
    curve = published(experiment="families", model="bloom-560m")
    (segment,) = dissect(curve).segments
    assert len(segment.levels) == 1


def test_without_the_cache_the_fall_is_not_shown():
    anatomy = dissect(published(experiment="kv_cache", kv_cache="off"))
    curve = anatomy.curve
    pair = [int(np.flatnonzero(curve.budget == n)[0]) for n in (512, 640)]
    ratio = np.exp(anatomy.summary.centre[pair[0]] - anatomy.summary.centre[pair[1]])
    assert ratio == pytest.approx(1.16, abs=0.03)
    assert not anatomy.fall.significant


@pytest.mark.parametrize("model", ["gpt2-medium", "gpt2-large"])
def test_the_control_on_cuda_shows_none(model):
    anatomy = dissect(published("cuda", experiment="control", model=model))
    assert anatomy.segments == ()
