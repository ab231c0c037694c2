"""Claims on the prompt's length: what it moves, and what it does not."""

from speedbump.analyse.claims.answer import (
    CANNOT_TELL,
    DIFFERS,
    HOLDS,
    Answer,
    basis,
    shown,
    values_of,
    without_regime,
)
from speedbump.analyse.claims.evidence import Evidence, Series
from speedbump.analyse.claims.regimes import MEDIUM
from speedbump.analyse.ratio import latency_ratio

BUDGETS = (496, 512, 624, 640)
SHORT, LONG = 3, 65


def prompt_moves_the_onset(evidence: Evidence) -> Answer:
    """Holds where the slow regimes of GPT-2 Medium after 3 and after 65 prompt tokens surely begin at different
    budgets, or only one has a regime; differs where both begin between the same two budgets. Value: latency after
    the long prompt over that after the short one, at the smallest budget that is slow after one of them alone.
    """
    short, long = _short_and_long(evidence)
    if not short.regimes and not long.regimes:
        return without_regime(long)
    shared = [n_gen for n_gen in long.points if n_gen in short.points]
    apart = [n for n in shared if {short.points[n].state, long.points[n].state} == {"slow", "normal"}]
    at = apart[0] if apart else 512
    points = long.points[at], short.points[at]
    ratio = latency_ratio(points[0].latency, points[1].latency)
    why = f"at {at} tokens, {basis(ratio, *points)}; onset {_onset(short)} and {_onset(long)}"
    return Answer(_moved(short, long), why, values_of(ratio), interval=shown(ratio, *points))


def prompt_does_not_move_the_recovery(evidence: Evidence) -> Answer:
    """Holds where the slow regimes of GPT-2 Medium after 3 and after 65 prompt tokens recover between the same two
    budgets; differs where they surely recover at different ones, or one has no regime. Values: latency at the first
    normal budget, short prompt then long.
    """
    every = _short_and_long(evidence)
    for series in every:
        if not series.regimes:
            return without_regime(series)
    (low, high), (other_low, other_high) = ((s.regimes[-1].recovery_low, s.regimes[-1].recovery_high) for s in every)
    if high is None or other_high is None:
        return Answer(CANNOT_TELL, "at least one is not seen to recover")
    values = tuple(s.points[end].latency.value for s, end in zip(every, (high, other_high), strict=True))
    same = (low, high) == (other_low, other_high)
    apart = high <= other_low or other_high <= low
    why = f"recovery between {low} and {high} tokens, and between {other_low} and {other_high}"
    return Answer(HOLDS if same else DIFFERS if apart else CANNOT_TELL, why, values, " and ")


def _short_and_long(evidence: Evidence) -> tuple[Series, Series]:
    short, long = (evidence.series(*BUDGETS, n_prompt=n_prompt, **MEDIUM) for n_prompt in (SHORT, LONG))
    return short, long


def _moved(short: Series, long: Series) -> str:
    if not short.regimes or not long.regimes:
        other = short if long.regimes else long
        return HOLDS if other.verdict == "smooth" else CANNOT_TELL
    a, b = short.regimes[0], long.regimes[0]
    if (a.onset_low, a.onset_high) == (b.onset_low, b.onset_high):
        return DIFFERS
    surely = any(x.onset_low is not None and y.onset_high <= x.onset_low for x, y in ((a, b), (b, a)))
    return HOLDS if surely else CANNOT_TELL


def _onset(series: Series) -> str:
    prompt = f"after {series.axes['n_prompt']} prompt tokens"
    if not series.regimes:
        return f"{prompt} none"
    regime = series.regimes[0]
    return f"{prompt} between {regime.onset_low} and {regime.onset_high} tokens"
