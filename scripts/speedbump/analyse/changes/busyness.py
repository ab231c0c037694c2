"""Whether the machine was busier while one of two sides was measured, so that nothing can be told of the two."""

import math
from dataclasses import replace

import numpy as np

from speedbump.analyse.changes.contrast import Side
from speedbump.analyse.curve import Curve
from speedbump.analyse.disturbance import beyond, times

BUSIER = {"sentinel": 1.4, "host_sentinel": 1.6}
"""From these ratios of the two sides' sentinels on, nothing is told: a load does something else to a sentinel than to a
request, so that it cannot be taken off. Heat and clocks stay below, and act on both alike: see ``contrast``."""
_SIDES = ("older", "newer")


def with_common_best(old: Side, new: Side) -> tuple[Side, Side]:
    """The two sides, with the lengths marked as disturbed whose sentinels are far above the best of either: a side that
    was busy throughout has no quiet moment of its own to be held against.
    """
    loads = [side.anatomy.curve.load for side in (old, new)]
    known = [load.best for load in loads if load is not None]
    if not known:
        return old, new
    best = np.fmin.reduce(known)
    return _marked(old, best), _marked(new, best)


def _marked(side: Side, best: np.typing.NDArray[np.float64]) -> Side:
    curve = side.anatomy.curve
    if curve.load is None:
        return side
    marked = replace(curve, disturbed=curve.disturbed | beyond(curve.load.seconds, best))
    return replace(side, anatomy=replace(side.anatomy, curve=marked))


def why_busier(old: Side, new: Side, same_machine: bool) -> str | None:
    """A clause where most common lengths of a side were disturbed, or a sentinel took BUSIER times as long on one; else
    None. Between two machines sentinels say how fast they are, and are not looked at.
    """
    budget = np.intersect1d(old.anatomy.curve.budget, new.anatomy.curve.budget)
    busy = [_is_busy(side.anatomy.curve, budget) for side in (old, new)]
    ratios = _ratios(old, new) if same_machine else {}
    factor = max((abs(ratio) for name, ratio in ratios.items() if abs(ratio) >= math.log(BUSIER[name])), default=0.0)
    if factor:
        newer = next(ratio for ratio in ratios.values() if abs(ratio) == factor) > 0
        took = f"the fixed workload took {times(math.exp(factor), 2)} times as long"
        return f"the machine was busier while the {_SIDES[newer]} was measured: {took}"
    if all(busy):
        return "the machine was busy while both were measured"
    if any(busy):
        return f"the machine was busier while the {_SIDES[busy[1]]} was measured: most of it is flagged as disturbed"
    return None


def _is_busy(curve: Curve, budget: np.typing.NDArray[np.float64]) -> bool:
    common = curve.disturbed[np.isin(curve.budget, budget)]
    return bool(len(common) and common.mean() > 0.5)


def _ratios(old: Side, new: Side) -> dict[str, float]:
    """Of each sentinel that ran on both sides, the log ratio of the two."""
    found = {name: getattr(new, name).value - getattr(old, name).value for name in BUSIER}
    return {name: ratio for name, ratio in found.items() if not math.isnan(ratio)}
