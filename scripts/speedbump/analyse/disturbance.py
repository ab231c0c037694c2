"""Which cells were measured while the machine did something else, and what that leaves of a curve.

Disturbance decides before anything else: what was measured while the machine was busy is set aside, and where that
is most of a curve nothing is called.
"""

import math
from dataclasses import replace

import numpy as np

from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.evidence import CLEARLY
from speedbump.analyse.examine import examine
from speedbump.analyse.rate import RateChange
from speedbump.analyse.segments import Anatomy
from speedbump.analyse.sentinels import LEVELS
from speedbump.analyse.verdict import WHILE_IDLE, Verdict, judge, listed

MOST = 0.5
"""Nothing is called on a curve more than this share of whose lengths were disturbed."""


def beyond(seconds: Array, best: Array) -> Flags:
    """Whether sentinels of these times, shape (n, 2) in the order of LEVELS, took too long against ``best``."""
    with np.errstate(invalid="ignore"):
        return np.asarray((seconds / best > np.array([*LEVELS.values()])).any(axis=1))


def is_busy(curve: Curve) -> bool:
    """Whether most of the curve was measured while the machine did something else, or all that finished."""
    quiet = ~curve.disturbed
    nothing_quiet = bool(curve.censored[quiet].all()) and not curve.censored.all()
    return bool(curve.disturbed.mean() > MOST) or nothing_quiet


def examine_quiet(curve: Curve, of_steps: RateChange | None = None) -> Anatomy:
    """The anatomy of a curve without the lengths that a disturbance may have slowed down; of one that is busy, of all.

    A load only slows down. So a disturbed length that takes no longer than CLEARLY times what the quiet ones lead to
    expect was as fast as a normal one, and stays.
    of_steps: as for examine.
    """
    if is_busy(curve):
        return examine(curve, of_steps)
    quiet = examine(_without(curve, curve.disturbed), of_steps)
    if not curve.disturbed.any():
        return quiet
    aside = curve.disturbed & (_excess(quiet, curve) > math.log(CLEARLY))
    return quiet if aside.sum() == curve.disturbed.sum() else examine(_without(curve, aside), of_steps)


def set_aside(anatomy: Anatomy, curve: Curve) -> Flags:
    """Which lengths of the curve are not in its quiet part, of which ``anatomy`` is."""
    quiet = [anatomy.curve.budget] + ([anatomy.aside.curve.budget] if anatomy.aside else [])
    return ~np.isin(curve.budget, np.concatenate(quiet))


def _without(curve: Curve, aside: Flags) -> Curve:
    """The other lengths, with the unrest of their undisturbed processes."""
    return replace(curve.only(~aside), unrest=curve.load.unrest if curve.load else curve.unrest)


def _excess(quiet: Anatomy, curve: Curve) -> Array:
    """Log latency of every length over what the quiet ones lead to expect: on the line of logarithms through these,
    beyond them through the last two. Infinite where these have no trend; of a stopped length, at least so much.
    """
    if quiet.expectation is None:
        return np.full(curve.n, np.inf)
    x, y, at = np.log(quiet.curve.budget), quiet.expectation.log_latency, np.log(curve.budget)
    k = np.clip(np.searchsorted(x, at), 1, len(x) - 1)
    expected = y[k - 1] + (y[k] - y[k - 1]) * (at - x[k - 1]) / (x[k] - x[k - 1])
    took = [curve.bound[i] if curve.censored[i] else float(np.median(curve.pooled(i))) for i in range(curve.n)]
    return np.asarray(np.array(took) - expected)


def why_busy(curve: Curve) -> str:
    """``the machine was busy while this was measured: 9 of 10 cells disturbed, the fixed workload took ...``."""
    text = "the machine was busy while this was measured"
    load = curve.load
    if load is None:
        return text
    text += f": {load.n_disturbed} of {load.n_cells} cells disturbed"
    if load.fold > min(LEVELS.values()):
        return f"{text}, the fixed workload took {times(load.fold)} times as long as at rest"
    return f"{text} ({load.reason})" if load.reason else text


def times(factor: float, digits: int = 1) -> str:
    """``12`` or, with so many digits, ``1.6``."""
    return f"{factor:.0f}" if factor >= 9.5 else f"{factor:.{digits}f}"


def judge_whole(anatomy: Anatomy, curve: Curve) -> Verdict:
    """The verdict on a curve: that on its quiet part, unless disturbance decides first.

    anatomy: of the quiet part, as ``examine_quiet`` gives it.
    """
    if curve.disturbed.any() and is_busy(curve):
        return Verdict("undetermined", why_busy(curve), WHILE_IDLE)
    verdict, aside = judge(anatomy), set_aside(anatomy, curve)
    if not aside.any():
        return verdict
    where = listed(curve.budget[aside])
    following = " ".join(filter(None, [f"Measure {where} again: the machine was busy there.", verdict.next]))
    slow = aside & (_excess(anatomy, curve) > math.log(SLOW_FROM))
    reason = f"the machine was busy at {where} tokens"
    if verdict.verdict == "undetermined":
        return Verdict("undetermined", f"{reason}; {verdict.reason}", following)
    if verdict.verdict == "smooth" and slow.any():
        return Verdict("undetermined", f"{reason}, which took longer than the others lead to expect", following)
    return replace(verdict, next=following)
