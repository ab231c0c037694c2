"""The verdict on a curve, its reason, and what to measure next; all in plain words."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import SLOW_FROM
from speedbump.analyse.evidence import span
from speedbump.analyse.segments import Anatomy, Segment

SUSPECT = 0.15
"""From this probability of the slow state on, a budget read as normal keeps a curve from being called smooth."""
BUSY = 0.25
"""From this unrest (see Summary) on, budgets differ by what else the machine did, and a smooth curve shows little."""
LEAST_BUDGETS = 4
"""Fewer budgets without a regime are too few to call a curve smooth."""


@dataclass(frozen=True)
class Verdict:
    """verdict: one of tables.VERDICTS.  reason: why nothing firmer can be said, else None.  next: what to
    measure next, None when nothing."""

    verdict: str
    reason: str | None
    next: str | None


def judge(anatomy: Anatomy) -> Verdict:
    """The verdict on what was found.

    slow regimes: an accepted regime, and latency falls significantly somewhere.  excess: above the trend, a
    fall not shown.  rate change: every further token costs more from some budget on.  undetermined: too little to
    say any of these.  smooth: neither regime nor doubt.
    """
    falls = anatomy.fall is not None and anatomy.fall.significant
    following = what_next(anatomy)
    if anatomy.accepted:
        return Verdict("slow regimes" if falls else "excess", None, following)
    if anatomy.rate is not None:
        return Verdict("rate change", None, following)
    reason = _doubt(anatomy, falls)
    return Verdict("undetermined", reason, following) if reason else Verdict("smooth", None, following)


def _doubt(anatomy: Anatomy, falls: bool) -> str | None:
    curve = anatomy.curve
    if curve.n == 1:
        return "one budget was measured, and one alone has nothing to stand out from"
    if anatomy.reading is None:
        return "fewer than two budgets can be read as normal"
    if anatomy.summary.unrest > BUSY:
        fold = math.exp(anatomy.summary.unrest)
        return f"the machine was busy: from process to process the same work took {fold:.1f} times as long, or as short"
    if anatomy.pattern is not None:
        return anatomy.pattern.told()
    if anatomy.doubtful:
        return "; ".join(str(segment.reason) for segment in anatomy.doubtful)
    unstable: list[int] = np.flatnonzero(anatomy.unstable).tolist()
    if unstable:
        return "; ".join(_both_states(anatomy, i) for i in unstable)
    if falls and anatomy.fall is not None:
        low, high = (int(curve.budget[i]) for i in (anatomy.fall.before, anatomy.fall.after))
        return f"latency falls by {anatomy.fall.ratio:.2f} from {low} to {high} tokens, but no stretch stands out"
    suspects = suspected(anatomy)
    if suspects:
        likeliest = max(suspects, key=lambda i: float(anatomy.p_slow[i]))
        return f"{span(curve, likeliest, likeliest)}: slow with probability {anatomy.p_slow[likeliest]:.2f}"
    if anatomy.doubtful_end is not None:
        end = anatomy.doubtful_end
        return (
            f"{span(curve, end.first, end.last)}: {end.slowdown.value:.1f} times what the others suggest, which a "
            f"bend of the curve could explain and so could a slow regime"
        )
    if curve.n < LEAST_BUDGETS:
        return f"{curve.n} budgets are too few to call the curve smooth"
    return None


def suspected(anatomy: Anatomy) -> list[int]:
    """Budgets read as normal that may well be slow."""
    return [int(i) for i in np.flatnonzero(anatomy.normal & (anatomy.p_slow >= SUSPECT))]


def _both_states(anatomy: Anatomy, i: int) -> str:
    assert anatomy.expectation is not None
    curve, limit = anatomy.curve, anatomy.expectation.log_latency[i] + math.log(SLOW_FROM)
    shares = [float(np.mean(values > limit)) for values in curve.repeats[i]]
    if len(shares) > 1 and all(share in (0, 1) for share in shares):
        return f"{span(curve, i, i)}: slow in {sum(map(int, shares))} of {len(shares)} processes"
    values = curve.pooled(i)
    return f"{span(curve, i, i)}: {int((values > limit).sum())} of {len(values)} requests slow, the others normal"


def what_next(anatomy: Anatomy) -> str | None:
    """What would firm up or sharpen the verdict most, in one or a few sentences; None when nothing would."""
    curve, parts = anatomy.curve, []
    if curve.n == 1:
        return "Measure more budgets, smaller and larger ones."
    if anatomy.reading is None:
        return "Measure smaller budgets, until at least three are normal."
    if anatomy.pattern is not None:
        size = anatomy.pattern.size
        some = _listed(curve.budget[:size].tolist())
        return f"Measure {some} again, in another process, and lengths between them."
    unsure = {i for s in anatomy.doubtful for i in (s.first, s.last)} | set(suspected(anatomy))
    unsure |= set(np.flatnonzero(anatomy.unstable).tolist())
    if anatomy.summary.unrest > BUSY:
        parts.append("Measure again while the machine has nothing else to do.")
    if unsure:
        parts.append(f"Measure {_listed([curve.budget[i] for i in sorted(unsure)])} again, in another process.")
    if int(anatomy.normal.sum()) < 3:
        parts.append("Measure more budgets on both sides, until at least three are normal.")
    for segment in anatomy.accepted:
        if not is_confirmed(anatomy, segment):
            again = [curve.budget[i] for i in confirming_budgets(anatomy, segment)]
            where = span(curve, segment.first, segment.last)
            parts.append(f"To confirm the regime {where}, measure {_listed(again)} in another process.")
        if segment.brackets.recovery[1] is None:
            parts.append(f"To see whether it recovers, measure budgets beyond {int(curve.budget[-1])}.")
    if anatomy.rate is not None and curve.n_processes.max() < 2:
        beside = np.argsort(np.abs(curve.budget - anatomy.rate.at), kind="stable")[:3].tolist()
        where = _listed([curve.budget[i] for i in sorted({*beside, curve.n - 1})])
        parts.append(f"To confirm the change of rate, measure {where} in another process.")
    if anatomy.doubtful_end is not None:
        where = "below" if anatomy.doubtful_end.first == 0 else "beyond"
        at_end = anatomy.doubtful_end.first if where == "below" else anatomy.doubtful_end.last
        parts.append(f"Measure budgets {where} {int(curve.budget[at_end])}, and between it and its neighbour.")
    if curve.n < LEAST_BUDGETS and not anatomy.accepted:
        parts.append("Measure at least four budgets.")
    return " ".join(parts) or None


def confirming_budgets(anatomy: Anatomy, segment: Segment) -> list[int]:
    """Indices of the budgets that are still to be seen in a second process: of the edges on both sides, and of
    the inner budgets the middle one unless another was.
    """
    assert anatomy.expectation is not None
    seen = anatomy.curve.n_processes_beyond(anatomy.expectation.log_latency + math.log(SLOW_FROM)) >= 2
    seen &= ~anatomy.unstable
    (last_normal, first_slow), (last_slow, first_normal) = segment.brackets.onset, segment.brackets.recovery
    wanted = {i for i in (last_normal, first_slow, last_slow, first_normal) if i is not None}
    if last_slow - first_slow > 1 and not seen[first_slow + 1 : last_slow].any():
        wanted.add((first_slow + last_slow) // 2)
    return sorted(i for i in wanted if not seen[i])


def is_confirmed(anatomy: Anatomy, segment: Segment) -> bool:
    """Whether its edges and one inner budget were measured in at least two processes that agree."""
    return not confirming_budgets(anatomy, segment)


def _listed(budgets: list[float]) -> str:
    """``512``, ``496 and 512``, ``496, 512 and 624``."""
    words = [str(int(budget)) for budget in budgets]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
