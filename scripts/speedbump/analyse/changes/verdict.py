"""What changed in a series, in a word and in a sentence."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.changes.contrast import ALPHA, NOTHING, Contrast, p_value
from speedbump.analyse.changes.extents import States
from speedbump.analyse.changes.matching import Move, Pairing, RegimeChange, follow_regime

LEAST_CHANGE = 1.05
"""A smaller change is called unchanged, whatever its interval: nobody would notice it."""
UNSEEN_SHIFT = 1.5
"""Where the trend could have slowed down by this unseen, nothing found is no "unchanged"."""
UNSEEN_BUDGET = 3.0
"""The same of a single budget."""
WHILE_IDLE = "measure both again, one after the other, while the machine has nothing else to do"
_MOST_NAMED = 6


@dataclass(frozen=True)
class Verdict:
    """word: one of tables.CHANGE_WORDS.  sentence: what it rests on, without a capital and a full stop.
    next: what to measure next, None when nothing.  budgets: every common budget's word, of tables.BUDGET_WORDS.
    trend: slower, faster or unchanged.  regimes: what became of each.
    """

    word: str
    sentence: str
    next: str | None
    budgets: list[str]
    trend: str
    regimes: list[RegimeChange]


@dataclass(frozen=True)
class Tested:
    """The tests of one series: p values, before and after correction, in the order budgets, shift, regimes."""

    between: Contrast
    old: States
    new: States
    pairings: list[Pairing]
    adjusted: np.typing.NDArray[np.float64]


def p_values(between: Contrast, pairings: list[Pairing]) -> np.typing.NDArray[np.float64]:
    """Of a series' tests: every budget's, the shift's, every common regime's."""
    return np.concatenate([between.p, [between.shift_p], [pairing.factor_p for pairing in pairings]])


def holm(p: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    """Adjusted p values (Holm 1979).

    The chance that any of the tests is wrong stays below ALPHA, however they depend on each other; here they do, by
    the session, the shift and the fixed workload that all share. Control of the rate of false discoveries (Benjamini &
    Yekutieli 2001) would find a little more, but one false finding fails a gate, and it is that chance which counts.
    """
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def judge_change(tested: Tested, n_tests: int) -> Verdict:
    """The verdict. n_tests: that were corrected for together.

    The word is the worst that is shown: new, slower, moved, gone, faster; then can't tell, then unchanged.
    """
    between, m = tested.between, len(tested.between.budget)
    budgets = _budget_words(between, tested.adjusted[:m])
    if between.busier:
        return _undecided(tested, between.busier, budgets)
    trend = _word(between.shift.value, tested.adjusted[m])
    factors = [_word(p.factor.value, q) for p, q in zip(tested.pairings, tested.adjusted[m + 1 :], strict=True)]
    regimes = [
        follow_regime(pairing, tested.new, between, budgets, word != "unchanged")
        for pairing, word in zip(tested.pairings, factors, strict=True)
    ]
    alone = _alone(between, budgets, tested.pairings, trend)
    found = {regime.word for regime in regimes}
    told = [_regime_clause(regime) for regime in regimes if regime.word not in ("same", "can't tell")]
    told += [_trend_clause(between, trend)] if trend != "unchanged" else []
    told += [_alone_clause(between, alone, word) for word in ("slower", "faster") if alone[word]]
    words = [
        word for word in ("new", "slower", "moved", "gone", "faster") if word in {*found, trend} or alone.get(word)
    ]
    doubts = _doubts(tested, budgets, regimes, trend, n_tests, anything=bool(words))
    word = words[0] if words else "can't tell" if doubts else "unchanged"
    sentence = "; ".join([*told, *doubts] if words or doubts else [_unchanged_clause(tested, n_tests)])
    return Verdict(word, sentence, _next(tested, budgets, regimes), budgets, trend, regimes)


def _undecided(tested: Tested, busier: str, budgets: list[str]) -> Verdict:
    """The verdict where the machine was busier on one side."""
    words = ["unclear" if word != "unchanged" else word for word in budgets]
    regimes = [RegimeChange(pairing, "can't tell", why=busier) for pairing in tested.pairings]
    return Verdict("can't tell", busier, WHILE_IDLE, words, "unchanged", regimes)


def _word(log_ratio: float, adjusted: float) -> str:
    if adjusted > ALPHA or not abs(log_ratio) > math.log(LEAST_CHANGE):
        return "unchanged"
    return "slower" if log_ratio > 0 else "faster"


def _budget_words(between: Contrast, adjusted: np.typing.NDArray[np.float64]) -> list[str]:
    words = []
    columns = (between.log_ratio, adjusted, between.chance, between.bound, between.disturbed)
    for log_ratio, p, chance, bound, disturbed in zip(*columns, strict=True):
        word = _word(float(log_ratio), float(p))
        doubtful = word != "unchanged" and (chance > ALPHA or disturbed)
        words.append("unclear" if bound == 2 or doubtful else word)
    return words


def _alone(between: Contrast, budgets: list[str], pairings: list[Pairing], trend: str) -> dict[str, list[int]]:
    """Indices of the budgets that changed apart from regimes and trend."""
    covered = np.logical_or.reduce([np.zeros(len(budgets), bool), *(pairing.inside for pairing in pairings)])
    with_trend = between.departs() > ALPHA if trend != "unchanged" else np.zeros(len(budgets), bool)
    free = ~covered & ~with_trend
    return {w: [k for k in np.flatnonzero(free).tolist() if budgets[k] == w] for w in ("slower", "faster")}


def _doubts(
    tested: Tested, budgets: list[str], regimes: list[RegimeChange], trend: str, n_tests: int, anything: bool
) -> list[str]:
    """Clauses on what cannot be told."""
    between = tested.between
    if not len(between.budget):
        return ["no budget was measured on both"]
    doubts = [f"{_place(regime)}: {regime.why}" for regime in regimes if regime.word == "can't tell"]
    covered = np.logical_or.reduce([np.zeros(len(budgets), bool), *(r.pairing.inside for r in regimes)])
    unclear = [k for k, word in enumerate(budgets) if word == "unclear" and between.bound[k] != 2 and not covered[k]]
    if unclear:
        ratios = np.exp(between.log_ratio[unclear])
        doubts.append(
            f"{_tokens(between, unclear)}: {_times(float(ratios.min()), float(ratios.max()))} as long, which a "
            "disturbance of single processes could explain"
        )
    drifted = _drifted(between, n_tests)
    if drifted and trend == "unchanged":
        doubts.append(drifted)
    elif not anything and not doubts:
        limit_shift, limit_budget = limits(between, n_tests)
        if math.isnan(limit_shift):
            doubts.append("no budget is normal on both")
        elif limit_shift > UNSEEN_SHIFT:
            doubts.append(f"normal budgets could be {limit_shift:.1f} times as slow unseen")
        elif limit_budget > UNSEEN_BUDGET:
            doubts.append(f"a single budget could be {limit_budget:.1f} times as slow unseen")
    return doubts


def limits(between: Contrast, n_tests: int) -> tuple[float, float]:
    """Slow-down of the trend, and of a typical single budget, that would have been found nine times in ten."""
    shift = between.detectable(between.shift.variance, n_tests)
    single = between.detectable(float(np.median(between.variance)), n_tests) if len(between.budget) else math.nan
    return math.exp(shift), math.exp(single)


def _drifted(between: Contrast, n_tests: int) -> str | None:
    """A shift that is plain, but that the fixed workload shows as well."""
    if between.drift is NOTHING or math.isnan(between.shift.value):
        return None
    value, variance = np.array([between.shift.value]), np.array([between.shift.variance])
    plain = float(p_value(value, variance, between.df, np.zeros(1, np.int64))[0])
    if _word(between.shift.value, plain * n_tests) == "unchanged":
        return None
    return (
        f"normal budgets took {math.exp(between.shift.value):.2f} times as long, and the fixed workload "
        f"{math.exp(between.drift.value):.2f} times: that may be the machine on that day, or the stack"
    )


def _place(regime: RegimeChange) -> str:
    extent = regime.pairing.old or regime.pairing.new
    assert extent is not None
    return f"the regime {_span(extent.first, extent.last)}"


def _span(first: int, last: int) -> str:
    return f"at {first} tokens" if first == last else f"from {first} to {last} tokens"


def _regime_clause(regime: RegimeChange) -> str:
    old, new = regime.pairing.old, regime.pairing.new
    if regime.word == "gone":
        return f"{_place(regime)} is gone"
    assert new is not None
    least = "at least " if new.lower_bound else ""
    if regime.word == "new":
        seen = "" if new.confirmed else ", seen in one process"
        return f"a new slow regime {_span(new.first, new.last)}, {least}{new.slowdown:.1f} times the trend{seen}"
    assert old is not None
    if regime.word == "moved":
        parts = [
            part
            for part in (_move_words("begins", regime.onset), _move_words("ends", regime.recovery))
            if part is not None
        ]
        return f"{_place(regime)} now {' and '.join(parts)}: it is {_span(new.first, new.last)}"
    return f"{_place(regime)} is {_factor(regime.pairing)} as slow as it was"


def _move_words(verb: str, move: Move) -> str | None:
    if move is None:
        return None
    least, most = sorted(map(abs, move))
    amount = f"{least}" if least == most else f"{least} to {most}"
    return f"{verb} {amount} token{'s' * (most != 1)} {'later' if move[0] > 0 else 'earlier'}"


def _factor(pairing: Pairing) -> str:
    return f"{math.exp(pairing.factor.value):.2f} times"


def _trend_clause(between: Contrast, trend: str) -> str:
    half = float(between.half(between.shift.variance))
    low, high = math.exp(between.shift.value - half), math.exp(between.shift.value + half)
    text = f"normal budgets take {math.exp(between.shift.value):.2f} times as long (95 % from {low:.2f} to {high:.2f})"
    if between.drift is NOTHING:
        return text
    return f"{text}, while the fixed workload took {math.exp(between.drift.value):.2f} times as long"


def _alone_clause(between: Contrast, alone: dict[str, list[int]], word: str) -> str:
    at = alone[word]
    ratios = np.exp(between.log_ratio[at])
    least = "at least " if (between.bound[at] == 1).any() else ""
    return f"{least}{_times(float(ratios.min()), float(ratios.max()))} as long at {_tokens(between, at)}"


def _times(low: float, high: float) -> str:
    return f"{low:.2f} times" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f} times"


def _tokens(between: Contrast, at: list[int]) -> str:
    named = [str(int(n)) for n in between.budget[at[:_MOST_NAMED]]]
    more = f" and {len(at) - _MOST_NAMED} more" if len(at) > _MOST_NAMED else ""
    return f"{', '.join(named)}{more} tokens"


def _unchanged_clause(tested: Tested, n_tests: int) -> str:
    between = tested.between
    limit_shift, limit_budget = limits(between, n_tests)
    kept = (
        f", and {len(tested.pairings)} slow regime{'s' * (len(tested.pairings) > 1)} as before"
        if tested.pairings
        else ""
    )
    m = len(between.budget)
    return (
        f"no change at {m} budget{'s' * (m > 1)}: normal ones take {math.exp(between.shift.value):.2f} times as "
        f"long{kept}; a slow-down of {limit_shift:.2f} times throughout, or of {limit_budget:.1f} times at one, would "
        "have been seen"
    )


def _next(tested: Tested, budgets: list[str], regimes: list[RegimeChange]) -> str | None:
    """What to measure next."""
    between = tested.between
    again = [k for k, word in enumerate(budgets) if word == "unclear"]
    steps = [f"measure {_tokens(between, again)} again in another process"] if again else []
    blind = [regime for regime in regimes if regime.word == "can't tell" and not regime.pairing.inside.any()]
    steps += [f"measure {_place(regime)} on both" for regime in blind]
    if _drifted(between, len(budgets) + 1) and "slower" not in budgets:
        steps.append("measure both again, one after the other")
    return "; ".join(steps) or None
