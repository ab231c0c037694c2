"""Claims on the KV cache: what it saves, inside and outside the slow regime, and whether it changes the output."""

from typing import Any

from speedbump.analyse.claims.answer import (
    CANNOT_TELL,
    DIFFERS,
    HOLDS,
    Answer,
    above,
    basis,
    digits,
    shown,
    values_of,
    without_regime,
)
from speedbump.analyse.claims.evidence import AbsentError, Evidence, Series
from speedbump.analyse.claims.regimes import PROBE
from speedbump.analyse.confidence import Interval
from speedbump.analyse.ratio import latency_ratio

CACHE_OFF: dict[str, Any] = {**PROBE, "kv_cache": "off"}
ALIKE = 1.1
"""Two latencies within this factor are alike: clock, pages and tiles move a normal one as much."""


def cache_pays_off_outside(evidence: Evidence) -> Answer:
    """Holds where GPT-2 Medium without the cache takes surely longer at every budget that is normal with it; differs
    where it is surely faster at one. Values: the smallest and largest ratio, off over on.
    """
    on, off = _on_and_off(evidence)
    ratios = _outside(on, off)
    if not ratios:
        raise AbsentError("needs a budget that is normal with the cache")
    outcomes = {n_gen: above(ratio, 1.0) for n_gen, ratio in ratios.items()}
    values = tuple(ratio.value for ratio in ratios.values())
    undecided = [str(n_gen) for n_gen, outcome in outcomes.items() if outcome == CANNOT_TELL]
    why = f"{len(ratios)} budgets, {min(ratios)} to {max(ratios)} tokens"
    if DIFFERS in outcomes.values():
        outcome = DIFFERS
    else:
        outcome = CANNOT_TELL if undecided else HOLDS
        why += f"; not decided at {', '.join(undecided)}" if undecided else ", all above 1"
    return Answer(outcome, why, (min(values), max(values)), "-")


def pay_off_collapses_inside(evidence: Evidence) -> Answer:
    """Holds where at the slowest slow budget the ratio, off over on, is surely below the smallest ratio outside the
    regime; differs where it is surely above, or without a regime. Value: the ratio there.
    """
    on, off = _on_and_off(evidence)
    outside = [ratio.value for ratio in _outside(on, off).values()]
    slow = [n_gen for n_gen in on.points if n_gen in off.points and on.points[n_gen].state == "slow"]
    if not slow or not outside:
        return without_regime(on) if not on.regimes else Answer(CANNOT_TELL, "no slow budget was measured both ways")
    worst = max(slow, key=lambda n_gen: on.points[n_gen].latency.value)
    points = off.points[worst], on.points[worst]
    ratio = latency_ratio(points[0].latency, points[1].latency)
    outcome = {HOLDS: DIFFERS, DIFFERS: HOLDS}.get(above(ratio, min(outside)), CANNOT_TELL)
    why = f"at {worst} tokens, {basis(ratio, *points)}; the smallest outside is {digits(min(outside))}"
    return Answer(outcome, why, values_of(ratio), interval=shown(ratio, *points))


def cacheless_latency_falls(evidence: Evidence) -> Answer:
    """Holds where GPT-2 Medium without the cache takes surely more than 1.1 times as long at 512 as at 640 tokens;
    differs where surely less. Value: the ratio.
    """
    off = evidence.series(512, 640, **CACHE_OFF)
    points = off.points[512], off.points[640]
    ratio = off.ratio(512, 640)
    return Answer(above(ratio, ALIKE), basis(ratio, *points), values_of(ratio), interval=shown(ratio, *points))


def outputs_are_the_same(evidence: Evidence) -> Answer:
    """Holds where GPT-2 Medium generates the very same tokens with and without the cache at every budget measured both
    ways. Value: the share of such budgets, since a budget's tokens are compared as a whole.
    """
    on, off = _on_and_off(evidence)
    both = {n: (on.points[n].tokens, off.points[n].tokens) for n in on.points if n in off.points}
    known = {n: a == b for n, (a, b) in both.items() if a is not None and b is not None}
    if not known:
        raise AbsentError("needs the generated tokens with and without the cache")
    differing = [str(n) for n, same in known.items() if not same]
    why = f"{len(known)} budgets compared" + (f"; others at {', '.join(differing)} tokens" if differing else "")
    share = 100 * (1 - len(differing) / len(known))
    return Answer(DIFFERS if differing else HOLDS, why, (share,))


def _on_and_off(evidence: Evidence) -> tuple[Series, Series]:
    off = evidence.series(**CACHE_OFF)
    return evidence.partner(off, **PROBE), off


def _outside(on: Series, off: Series) -> dict[int, Interval]:
    """Ratio off over on at every budget that is normal with the cache."""
    normal = (n_gen for n_gen in on.points if n_gen in off.points and on.points[n_gen].state == "normal")
    ratios = {n_gen: latency_ratio(off.points[n_gen].latency, on.points[n_gen].latency) for n_gen in normal}
    return {n_gen: ratio for n_gen, ratio in ratios.items() if ratio is not None}
