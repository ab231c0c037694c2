"""Claims on the slow regime itself: where it lies, how steep its edges are, what part of a request is slow."""

from typing import Any

from speedbump.analyse.claims.answer import (
    CANNOT_TELL,
    DIFFERS,
    HOLDS,
    Answer,
    above,
    basis,
    shown,
    values_of,
    verdicts,
    without_regime,
)
from speedbump.analyse.claims.evidence import AbsentError, Evidence, Regime, Series
from speedbump.analyse.curve import SLOW_FROM

GPT2 = ("distilgpt2", "gpt2", "gpt2-medium", "gpt2-large")
"""The paper's models, smallest first."""
BASELINE: dict[str, Any] = {"device": "mps", "instrument": "step_sync"}
MEDIUM: dict[str, Any] = {"model": "gpt2-medium", **BASELINE}
PROBE: dict[str, Any] = {**MEDIUM, "instrument": "per_step"}
STEP = 16
"""Tokens between two lengths of the paper's finest scan."""
SMALL_SHARE = 5.0
"""Per cent of a request below which its prefill is not what is slow."""


def latency_is_not_monotone(evidence: Evidence) -> Answer:
    """Holds where some GPT-2 model on MPS has a slow regime after which latency falls significantly; differs where
    every one is smooth. Value: the largest latency in a slow regime over the last normal one below it.
    """
    every = evidence.several(GPT2, **BASELINE)
    steps = [
        (ratio, series, n_gen, regime.onset_low)
        for series in every
        for regime in series.regimes
        for n_gen in series.points
        if regime.onset_low is not None and regime.first_slow <= n_gen <= regime.last_slow
        if (ratio := series.ratio(n_gen, regime.onset_low)) is not None
    ]
    if any(series.verdict == "slow regimes" for series in every):
        outcome = HOLDS
    elif all(series.verdict == "smooth" for series in every):
        outcome = DIFFERS
    else:
        outcome = CANNOT_TELL
    if not steps:
        return Answer(outcome, verdicts(every))
    ratio, series, slow, normal = max(steps, key=lambda step: step[0].value)
    points = series.points[slow], series.points[normal]
    why = f"largest: {series.model} at {slow} against {normal} tokens, {basis(ratio, *points)}; {verdicts(every)}"
    return Answer(outcome, why, (ratio.value,), interval=shown(ratio, *points))


def medium_is_slow_at_512(evidence: Evidence) -> Answer:
    """Holds where 512 tokens lie in an accepted slow regime of GPT-2 Medium; differs where they are surely normal.
    Value: latency at 512 over that at 384 tokens.
    """
    series = evidence.series(384, 512, **MEDIUM)
    points = series.points[512], series.points[384]
    outcome = {"slow": HOLDS, "normal": DIFFERS}.get(points[0].state, CANNOT_TELL)
    ratio = series.ratio(512, 384)
    why = f"512 tokens are {points[0].state}; {basis(ratio, *points)}"
    return Answer(outcome, why, values_of(ratio), interval=shown(ratio, *points))


def regime_is_wide_with_sharp_edges(evidence: Evidence) -> Answer:
    """Holds where GPT-2 Medium's worst regime spans several measured budgets and both its edges are known within 16
    tokens; differs without a regime or where it is one budget. Values: its first and last slow budget.
    """
    series = _probe(evidence)
    regime = series.worst
    if regime is None:
        return without_regime(series)
    values = float(regime.first_slow), float(regime.last_slow)
    edges = f"begins {_edge(regime.onset_low, regime.onset_high)}, ends {_edge(*_recovery(regime))}"
    if regime.first_slow == regime.last_slow:
        return Answer(DIFFERS, f"one budget wide; it {edges}", values, "-")
    sharp = _is_sharp(regime.onset_low, regime.onset_high) and _is_sharp(*_recovery(regime))
    return Answer(HOLDS if sharp else CANNOT_TELL, f"it {edges}", values, "-")


def entry_is_sharp(evidence: Evidence) -> Answer:
    """Holds where the first slow budget of GPT-2 Medium's worst regime is at most 16 tokens above a normal one and its
    latency more than 1.4 times as long; differs without a regime. Value: the ratio of the two.
    """
    series = _probe(evidence)
    regime = series.worst
    if regime is None:
        return without_regime(series)
    return _over_edge(series, regime.onset_high, regime.onset_low)


def recovery_is_sharp(evidence: Evidence) -> Answer:
    """Holds where a normal budget lies at most 16 tokens above the last slow one of GPT-2 Medium's worst regime, whose
    latency is more than 1.4 times as long; differs without a regime. Value: the ratio of the two.
    """
    series = _probe(evidence)
    regime = series.worst
    if regime is None:
        return without_regime(series)
    return _over_edge(series, *_recovery(regime))


def prefill_is_not_what_is_slow(evidence: Evidence) -> Answer:
    """Holds where prefill is less than 5 % of the latency at the first slow budget of GPT-2 Medium's worst regime;
    differs where it is more, or without a regime. Value: the share.
    """
    series = _probe(evidence)
    regime = series.worst
    if regime is None:
        return without_regime(series)
    prefill_share = series.points[regime.first_slow].prefill_share
    if prefill_share is None:
        raise AbsentError(f"needs the time of prefill at {regime.first_slow} tokens")
    share = 100 * prefill_share
    return Answer(HOLDS if share < SMALL_SHARE else DIFFERS, f"at {regime.first_slow} tokens", (share,))


def larger_models_enter_earlier(evidence: Evidence) -> Answer:
    """Holds where GPT-2 Large is surely slow at a budget at which GPT-2 Medium is still normal; differs where it is the
    other way round, or both enter between the same two budgets, or one has no regime. Values: their first slow
    budgets, Large then Medium.
    """
    large = evidence.series(**{**BASELINE, "model": "gpt2-large"})
    medium = evidence.partner(large, **MEDIUM)
    for series in (large, medium):
        if not series.regimes:
            return without_regime(series)
    early, late = large.regimes[0], medium.regimes[0]
    edges = f"Large enters {_edge(early.onset_low, early.onset_high)}, Medium {_edge(late.onset_low, late.onset_high)}"
    values = float(early.first_slow), float(late.first_slow)
    return Answer(_before(early, late), edges, values, " against ")


def _before(early: Regime, late: Regime) -> str:
    """Whether one regime surely begins before another; differs where it surely does not, or both begin alike."""
    if late.onset_low is not None and early.onset_high <= late.onset_low:
        return HOLDS
    same = (early.onset_low, early.onset_high) == (late.onset_low, late.onset_high)
    after = early.onset_low is not None and late.onset_high <= early.onset_low
    return DIFFERS if same or after else CANNOT_TELL


def _probe(evidence: Evidence) -> Series:
    return evidence.series(496, 512, **PROBE)


def _recovery(regime: Regime) -> tuple[int, int | None]:
    return regime.recovery_low, regime.recovery_high


def _is_sharp(low: int | None, high: int | None) -> bool:
    return low is not None and high is not None and high - low <= STEP


def _edge(low: int | None, high: int | None) -> str:
    if low is None:
        return f"at {high} tokens or before"
    return f"between {low} and {high} tokens" if high is not None else f"beyond {low} tokens"


def _over_edge(series: Series, slow: int, normal: int | None) -> Answer:
    if normal is None:
        return Answer(CANNOT_TELL, f"no normal budget is known beyond {slow} tokens")
    ratio = series.ratio(slow, normal)
    points = series.points[slow], series.points[normal]
    outcome = above(ratio, SLOW_FROM) if abs(slow - normal) <= STEP else CANNOT_TELL
    why = f"{slow} against {normal} tokens, {basis(ratio, *points)}"
    return Answer(outcome, why, values_of(ratio), interval=shown(ratio, *points))
