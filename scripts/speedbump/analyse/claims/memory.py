"""Claims on memory through the slow regime and after it."""

from itertools import pairwise
from statistics import median

from speedbump.analyse.claims.answer import CANNOT_TELL, DIFFERS, HOLDS, Answer, digits, without_regime
from speedbump.analyse.claims.evidence import AbsentError, Evidence
from speedbump.analyse.claims.regimes import MEDIUM

MEMORY = {**MEDIUM, "instrument": "memory"}
STEP = 128
MEGABYTE = 1e6
TOLERANCE = 0.1
"""Share of the usual growth within which growth is smooth, or memory has not been given back."""


def live_memory_grows_smoothly(evidence: Evidence) -> Answer:
    """Holds where GPT-2 Medium's live allocations grow alike over every 128 tokens, the largest departure within a
    tenth of the median increment; differs where it is more. Value: that departure.
    """
    series = evidence.series(**MEMORY)
    held = {n: point.live_bytes for n, point in series.points.items() if point.live_bytes is not None}
    increments = [held[b] - held[a] for a, b in pairwise(sorted(held)) if b - a == STEP]
    if len(increments) < 3:
        raise AbsentError(f"needs live allocations at four budgets {STEP} tokens apart")
    usual = median(increments)
    departure = max(abs(increment - usual) for increment in increments)
    why = f"{len(increments)} increments of usually {digits(usual / MEGABYTE)} MB"
    return Answer(HOLDS if departure <= TOLERANCE * usual else DIFFERS, why, (departure / MEGABYTE,))


def system_memory_stays_high(evidence: Evidence) -> Answer:
    """Holds where after the slow regime the system's memory in use has fallen by less than a tenth of what it had grown
    since the smallest budget; differs where it has fallen by more, or without a regime. Value: memory at the first
    normal budget after the regime, less that at its last slow one.
    """
    series = evidence.series(**MEMORY)
    regime = series.worst
    if regime is None:
        return without_regime(series)
    if regime.recovery_high is None:
        return Answer(CANNOT_TELL, f"it is not seen to recover up to {max(series.points)} tokens")
    smallest, slow, normal = min(series.points), regime.recovery_low, regime.recovery_high
    before, during, after = (series.points[n_gen].system_bytes for n_gen in (smallest, slow, normal))
    if before is None or during is None or after is None:
        raise AbsentError("needs the system's memory in use")
    change, growth = after - during, during - before
    why = f"{normal} less {slow} tokens; it had grown by {digits(growth / MEGABYTE)} MB since {smallest} tokens"
    return Answer(HOLDS if change > -TOLERANCE * growth else DIFFERS, why, (change / MEGABYTE,))
