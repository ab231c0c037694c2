"""Whatever the curves are, what is said of them is whole sentences that contradict no table."""

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speedbump.grid.axes import AXES, DEFAULTS, Axis
from speedbump.report.curves import SERIES_AXES, Curve, Regime, axis_words
from speedbump.report.study import Progress
from speedbump.report.verdict import (
    advise,
    condition,
    curve_sentence,
    edges,
    headline,
    latency_finding,
    verdict_sentence,
)
from speedbump.tables import BUDGETS, VERDICTS

ratios = st.floats(1.4, 90)


@st.composite
def regimes(draw: st.DrawFn, lengths: list[int], number: int, accepted: bool) -> Regime:
    first = draw(st.integers(0, len(lengths) - 1))
    last = draw(st.integers(first, len(lengths) - 1))
    bound = draw(st.booleans())
    factor = draw(ratios)
    return Regime(
        series="s",
        regime=number,
        accepted=accepted,
        reason=None if accepted else "weak",
        first_slow=lengths[first],
        last_slow=lengths[last],
        onset_low=lengths[first - 1] if first else None,
        onset_high=lengths[first],
        recovery_low=lengths[last],
        recovery_high=lengths[last + 1] if last + 1 < len(lengths) else None,
        open_left=first == 0,
        open_right=last + 1 == len(lengths),
        slowdown=factor,
        slowdown_low=draw(st.one_of(st.none(), st.just(factor * 0.8))),
        slowdown_high=None if bound else factor * 1.3,
        slowdown_neighbour=None,
        lower_bound=bound,
        confirmed=draw(st.booleans()),
        levels=None,
        worst_n_gen=lengths[first],
        worst_s=10.0,
        worst_expected_s=draw(st.one_of(st.none(), st.just(2.0))),
    )


@st.composite
def curves(draw: st.DrawFn) -> Curve:
    verdict = draw(st.sampled_from(VERDICTS))
    lengths = sorted(draw(st.sets(st.integers(1, 4096), min_size=1, max_size=12))) if verdict != "not measured" else []
    found: list[Regime] = []
    if lengths and verdict in ("slow regimes", "excess", "step"):
        found = [draw(regimes(lengths, number, True)) for number in range(1, draw(st.integers(2, 3)))]
    if lengths and verdict == "undetermined":
        found = [draw(regimes(lengths, 1, False))] if draw(st.booleans()) else []
    row: dict[str, Any] = {axis: DEFAULTS[axis] for axis in SERIES_AXES}
    row |= {
        "series": "s",
        "machine": "m",
        "stack": "t",
        "reason": draw(st.one_of(st.none(), st.just("too few lengths."))),
        "n_gen_min": lengths[0] if lengths else None,
        "n_gen_max": lengths[-1] if lengths else None,
        "noticed": draw(st.one_of(st.none(), ratios)),
        "noticed_ends": draw(st.one_of(st.none(), ratios)),
        "rate_from": lengths[0] if lengths else None,
        "rate_ratio": draw(st.one_of(st.none(), ratios)) if verdict == "rate change" and lengths else None,
        "rate_ratio_low": draw(st.one_of(st.none(), ratios)),
        "rate_ratio_high": draw(st.one_of(st.none(), ratios)),
        "narrowest": draw(st.one_of(st.none(), st.integers(1, 256))) if lengths else None,
        "busy": False,
        "stopped_from": draw(st.one_of(st.none(), st.just(512))) if lengths else None,
    }
    if verdict == "step":
        found = [replace(regime, kind=draw(st.sampled_from(("step up", "step down")))) for regime in found]
    slow = {n for regime in found for n in lengths if regime.first_slow <= n <= regime.last_slow}
    budgets = pl.DataFrame(
        [
            {**dict.fromkeys(BUDGETS.schema.names()), "n_gen": n, "state": "slow" if n in slow else "normal"}
            for n in lengths
        ],
        schema=BUDGETS.schema,
    )
    device = draw(st.sampled_from(("MPS", "CPU", "CUDA")))
    apart = draw(st.sampled_from(((), ("cache off",))))
    return Curve("c1", "GPT-2", device, apart, verdict, row, tuple(found), budgets)


def whole(text: str) -> bool:
    """A capital first, one full stop last, nothing left unfilled and nothing doubled."""
    return bool(
        re.fullmatch(r"[A-Z0-9].*[^.;,: ]\.", text)
        and not re.search(r"None of 1 |\bnan\b|\binf\b|  |\.\.|;;|\(\)|None(?! of)", text)
    )


@given(st.lists(curves(), max_size=5), st.one_of(st.none(), st.builds(Progress, st.integers(5, 9), st.integers(0, 5))))
@settings(max_examples=300, deadline=None)
def test_sentences_are_whole(found: list[Curve], progress: Progress | None) -> None:
    assert whole(verdict_sentence(found, progress))
    parts = headline(found, progress)
    assert whole(parts.main)
    assert parts.rest == "" or whole(parts.rest)
    for text in [latency_finding(found), condition(found), *(edges(r) for c in found for r in c.regimes)]:
        assert not re.search(r"None|\bnan\b|  ", text)
    for curve in found:
        assert whole(curve_sentence(curve))


@given(curves())
@settings(max_examples=300, deadline=None)
def test_no_boast_the_interval_does_not_carry(curve: Curve) -> None:
    text = curve_sentence(curve)
    worst = curve.worst
    if worst is None:
        assert "×" not in text or "would have been noticed" in text or curve.verdict == "rate change"
    elif worst.lower_bound:
        assert ("at most" if worst.kind == "step down" else "at least") in text
    elif worst.slowdown_low is None:
        assert "no interval" in text
    if curve.verdict == "excess":
        assert "slow regime" not in text


@given(curves())
@settings(max_examples=300, deadline=None)
def test_lengths_are_of_one_kind_only(curve: Curve) -> None:
    advice = advise(curve)
    measured = set(curve.budgets["n_gen"].to_list())
    for first, last in advice.normal:
        assert {first, last} <= measured
        for low, high in advice.avoid:
            assert last < low or high < first
    if curve.verdict in ("undetermined", "not measured"):
        assert advice.normal == ()


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_values_of_an_axis_read_as_words_and_differ(axis: Axis) -> None:
    values = axis.values or {"ballast_gb": (0, 8), "watermark": ("default", "high_1.0", "low_0.8")}.get(axis.name, ())
    words = [axis_words(axis.name, value) for value in values]
    assert len(set(words)) == len(values)
    assert not [word for word in words if "_" in word]
