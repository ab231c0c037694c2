"""The verdict on a curve, its reason, and what to measure next; all in plain words."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import SLOW_FROM
from speedbump.analyse.evidence import span
from speedbump.analyse.segments import Anatomy, Segment, dissect
from speedbump.analyse.summary import summarise
from speedbump.analyse.trend import POWERS

SUSPECT = 0.15
"""From this probability of the slow state on, a budget read as normal keeps a curve from being called smooth."""
BUSY = 0.25
"""From this unrest (see Summary) on, budgets differ by what else the machine did, and a smooth curve shows little."""
LEAST_BUDGETS = 4
"""Fewer budgets without a regime are too few to call a curve smooth."""


WHILE_IDLE = "Measure again while the machine has nothing else to do."
MOST_NOTICED = 3.0
"""A curve is called smooth only where a slow-down of this size would have been noticed."""


@dataclass(frozen=True)
class Verdict:
    """verdict: one of tables.VERDICTS.  reason: why nothing firmer can be said, or which budgets it leaves out; else
    None.  next: what to measure next, None when nothing."""

    verdict: str
    reason: str | None
    next: str | None


def judge(anatomy: Anatomy) -> Verdict:
    """The verdict on what was found.

    slow regimes: an accepted regime, and latency falls significantly beyond one.  excess: above the trend, a fall not
    shown.  step: from one budget on all is longer, or shorter, in proportion.  rate change: every further token costs
    more from some budget on.  undetermined: too little to say any of these.  smooth: neither regime nor doubt, and a
    slow-down by MOST_NOTICED would have been noticed.
    """
    first = judge_found(anatomy)
    if first.verdict != "smooth":
        return first
    before, last = (int(budget) for budget in anatomy.curve.budget[-2:])
    if is_unguarded(anatomy):
        reason = f"at {last} tokens: a slow-down by {MOST_NOTICED:g} would pass for a bend of the curve"
        following = f"Measure budgets between {before} and {last}, and beyond {last}."
        return Verdict("undetermined", _joined(first.reason, reason), following)
    missed = anatomy.noticeable.between_ends()[0] if anatomy.noticeable else math.nan
    if missed > MOST_NOTICED:
        size = f"by {missed:.1f}" if math.isfinite(missed) else "of any size"
        reason = f"a slow-down {size} between the smallest and the largest length could have gone unnoticed"
        return Verdict("undetermined", _joined(first.reason, reason), "Measure more budgets, with more requests each.")
    return first


def judge_found(anatomy: Anatomy) -> Verdict:
    """The same, without asking what would have been noticed."""
    following, accepted = what_next(anatomy), anatomy.accepted
    told = _joined(*_set_aside(anatomy))
    if any(not segment.is_step for segment in accepted):
        falls = anatomy.regime_fall is not None and anatomy.regime_fall.significant
        return Verdict("slow regimes" if falls else "excess", told, following)
    if accepted:
        return Verdict("step", told, following)
    if anatomy.rate is not None:
        return Verdict("rate change", told, following)
    doubt = _doubt(anatomy)
    known = doubt is None and stopped_tail(anatomy) is None
    return Verdict("smooth" if known else "undetermined", _joined(told, doubt), following)


def is_unguarded(anatomy: Anatomy) -> bool:
    """Whether a slow-down of the last budget by MOST_NOTICED passes for a bend, in a curve that looks smooth: there is
    no larger budget to show a return. Tried on the curve itself, up and down: it may be slow already.

    No trend rises faster than the cube of the budget, so close to the budget before none would pass.
    """
    curve = anatomy.curve
    if (curve.budget[-1] / curve.budget[-2]) ** POWERS[-1] < MOST_NOTICED:
        return False
    for times in (MOST_NOTICED, 1 / MOST_NOTICED):
        found = judge_found(dissect(curve.slowed(curve.n - 1, times)))
        if found.verdict == "smooth" and found.reason is None:
            return True
    return False


def _joined(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None


def _set_aside(anatomy: Anatomy) -> list[str]:
    """A clause on the budgets beyond which nothing finished, and one on those too fast to believe."""
    aside, told = anatomy.aside, []
    if aside is None:
        return []
    tail = stopped_tail(anatomy)
    if tail is not None:
        told.append(tail.told())
    fast: list[int] = np.flatnonzero(aside.fast).tolist()
    for i in fast:
        times = math.exp(float(aside.expected[i] - summarise(aside.curve).centre[i]))
        told.append(f"{span(aside.curve, i, i)}: suspiciously fast, {times:.1f} times below the trend: look at it")
    return told


@dataclass(frozen=True)
class Stop:
    """The largest budgets, of which nothing is known.

    first, last: of them.  by: what stopped their requests, as their messages begin.
    """

    first: int
    last: int
    by: str

    def told(self) -> str:
        """``from 384 tokens nothing finished, stopped by the memory guard``."""
        where = f"at {self.first} tokens" if self.first == self.last else f"from {self.first} tokens"
        return f"{where} nothing finished, {self.by}"


def stopped_tail(anatomy: Anatomy) -> Stop | None:
    """The budgets beyond the last known one, stopped before they were surely slow; None where there are none."""
    aside = anatomy.aside
    if aside is None:
        return None
    beyond = np.flatnonzero(aside.stopped & (aside.curve.budget > anatomy.curve.budget[-1]))
    if not len(beyond):
        return None
    messages = aside.curve.stopped_by or (None,) * aside.curve.n
    words = dict.fromkeys(messages[i] or "stopped" for i in beyond)
    first, last = (int(aside.curve.budget[beyond[k]]) for k in (0, -1))
    return Stop(first, last, " or ".join(words))


def _doubt(anatomy: Anatomy) -> str | None:
    curve = anatomy.curve
    tail = stopped_tail(anatomy)
    if curve.n == 1:
        return None if tail else "one budget was measured, and one alone has nothing to stand out from"
    if anatomy.reading is None:
        return "fewer than two budgets can be read as normal"
    if anatomy.summary.unrest > BUSY:
        return _unrest(anatomy)
    if anatomy.pattern is not None:
        return anatomy.pattern.told()
    if anatomy.doubtful:
        return "; ".join(str(segment.reason) for segment in anatomy.doubtful)
    unstable: list[int] = np.flatnonzero(anatomy.unstable).tolist()
    if unstable:
        return "; ".join(_both_states(anatomy, i) for i in unstable)
    fall = anatomy.unusual_fall
    if fall is not None and fall.significant:
        low, high = (int(curve.budget[i]) for i in (fall.before, fall.after))
        return f"latency falls by {fall.ratio:.2f} from {low} to {high} tokens, but no stretch stands out"
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
    if tail is None and curve.n < LEAST_BUDGETS:
        return f"{curve.n} budgets are too few to call the curve smooth"
    return None


def _unrest(anatomy: Anatomy) -> str:
    """What is known of why whole processes differ."""
    if anatomy.curve.unrest > BUSY:
        fold = math.exp(anatomy.curve.unrest)
        return f"the machine was busy: from process to process the same work took {fold:.1f} times as long, or as short"
    fold = math.exp(anatomy.summary.unrest)
    return f"processes differ by {fold:.1f}: a busy or hot machine, or a state that stays"


def suspected(anatomy: Anatomy) -> list[int]:
    """Budgets read as normal that may well be slow."""
    return [int(i) for i in np.flatnonzero(anatomy.normal & (anatomy.p_slow >= SUSPECT))]


def _both_states(anatomy: Anatomy, i: int) -> str:
    assert anatomy.expected is not None
    curve, limit = anatomy.curve, anatomy.expected[i] + math.log(SLOW_FROM)
    shares = [float(np.mean(values > limit)) for values in curve.repeats[i]]
    values = curve.pooled(i)
    slow, fast = values[values > limit], values[values <= limit]
    levels = f"{np.exp(np.median(slow)):.3g} s, the others {np.exp(np.median(fast)):.3g} s"
    apart = f"two levels {np.exp(np.median(slow) - np.median(fast)):.1f} times apart"
    if len(shares) > 1 and all(share in (0, 1) for share in shares):
        who = f"slow in {sum(map(int, shares))} of {len(shares)} processes"
    else:
        who = f"{len(slow)} of {len(values)} requests slow"
    return f"{span(curve, i, i)}: {who}, {levels}: {apart}"


def what_next(anatomy: Anatomy) -> str | None:
    """What would firm up or sharpen the verdict most, in one or a few sentences; None when nothing would."""
    curve, parts = anatomy.curve, []
    tail = _beyond_the_stop(anatomy)
    if curve.n == 1:
        return tail or "Measure more budgets, smaller and larger ones."
    if anatomy.reading is None:
        return "Measure smaller budgets, until at least three are normal."
    if tail:
        parts.append(tail)
    if anatomy.pattern is not None:
        size = anatomy.pattern.size
        some = listed(curve.budget[:size].tolist())
        return " ".join([*parts, f"Measure {some} again, in another process, and lengths between them."])
    unsure = {i for s in anatomy.doubtful for i in (s.first, s.last)} | set(suspected(anatomy))
    unsure |= set(np.flatnonzero(anatomy.unstable).tolist())
    again = [curve.budget[i] for i in unsure]
    if anatomy.aside is not None:
        again += anatomy.aside.curve.budget[anatomy.aside.fast].tolist()
    if anatomy.curve.unrest > BUSY:
        parts.append(WHILE_IDLE)
    elif anatomy.summary.unrest > BUSY:
        parts.append("Measure every budget in more processes, with pauses between them.")
    if again:
        parts.append(f"Measure {listed(sorted(again))} again, in another process.")
    if int(anatomy.normal.sum()) < 3:
        parts.append("Measure more budgets on both sides, until at least three are normal.")
    for segment in anatomy.accepted:
        if not is_confirmed(anatomy, segment):
            again = [curve.budget[i] for i in confirming_budgets(anatomy, segment)]
            what = "step" if segment.is_step else "regime"
            where = span(curve, segment.first, segment.last)
            parts.append(f"To confirm the {what} {where}, measure {listed(again)} in another process.")
        if segment.brackets.recovery[1] is None and not segment.is_step:
            parts.append(f"To see whether it recovers, measure budgets beyond {int(curve.budget[-1])}.")
    if anatomy.rate is not None and curve.n_processes.max() < 2:
        beside = np.argsort(np.abs(curve.budget - anatomy.rate.at), kind="stable")[:3].tolist()
        where = listed([curve.budget[i] for i in sorted({*beside, curve.n - 1})])
        parts.append(f"To confirm the change of rate, measure {where} in another process.")
    if anatomy.doubtful_end is not None:
        where = "below" if anatomy.doubtful_end.first == 0 else "beyond"
        at_end = anatomy.doubtful_end.first if where == "below" else anatomy.doubtful_end.last
        parts.append(f"Measure budgets {where} {int(curve.budget[at_end])}, and between it and its neighbour.")
    fall = anatomy.unusual_fall
    if not parts and not anatomy.accepted and fall is not None and fall.significant:
        low, high = (int(curve.budget[i]) for i in (fall.before, fall.after))
        parts.append(f"Measure {listed([low, high])} again, in another process.")
    if tail is None and curve.n < LEAST_BUDGETS and not anatomy.accepted:
        parts.append("Measure at least four budgets.")
    return " ".join(parts) or None


def _beyond_the_stop(anatomy: Anatomy) -> str | None:
    """What would make the largest budgets finish, where they were stopped too early to say anything."""
    tail = stopped_tail(anatomy)
    if tail is None:
        return None
    longer = ", or allow a request more time" if "request limit" in tail.by else ""
    known = int(anatomy.curve.budget[-1])
    return (
        f"For lengths beyond {known}, take a smaller model or half-precision weights{longer}; or measure shorter ones."
    )


def confirming_budgets(anatomy: Anatomy, segment: Segment) -> list[int]:
    """Indices of the budgets that are still to be seen in a second process: of the edges on both sides, and of
    the inner budgets the middle one unless another was.
    """
    assert anatomy.expectation is not None
    seen = anatomy.curve.n_processes_beyond(anatomy.expectation.log_latency + math.log(SLOW_FROM)) >= 2
    seen &= ~anatomy.unstable
    (last_normal, first_slow), (last_slow, first_normal) = segment.brackets.onset, segment.brackets.recovery
    edges = [last_normal, first_slow, last_slow, first_normal]
    if segment.is_step:  # where the measured budgets end is no edge of it
        edges = edges[:2] if segment.kind == "step up" else edges[2:]
    wanted = {i for i in edges if i is not None}
    if last_slow - first_slow > 1 and not seen[first_slow + 1 : last_slow].any():
        wanted.add((first_slow + last_slow) // 2)
    return sorted(i for i in wanted if not seen[i])


def is_confirmed(anatomy: Anatomy, segment: Segment) -> bool:
    """Whether its edges and one inner budget were measured in at least two processes that agree."""
    return not confirming_budgets(anatomy, segment)


def listed(budgets: Iterable[float]) -> str:
    """``512``, ``496 and 512``, ``496, 512 and 624``."""
    words = [str(int(budget)) for budget in budgets]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
