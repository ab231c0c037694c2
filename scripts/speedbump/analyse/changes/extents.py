"""The slow regimes of the two sides: where each begins and ends, as far as is known."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.changes.contrast import Contrast, Side
from speedbump.analyse.curve import SLOW_FROM, Array, Flags
from speedbump.analyse.evidence import CLEARLY
from speedbump.analyse.regimes import states_in_words
from speedbump.analyse.segments import Anatomy, runs
from speedbump.analyse.verdict import judge

FEW = 0.5
"""A new curve with less than this share of the old one's budgets is read against the old one."""
_SURE = 2.0
"""Standard errors by which a budget must clear a limit before its state is called known."""

_UNLIKELY = 0.05


@dataclass(frozen=True)
class Extent:
    """A slow regime. first, last: smallest and largest budget known to be slow. before, after: the nearest budgets
    known to be normal, None where none is. slowdown: against the trend. lower_bound: of some budget.
    """

    first: int
    last: int
    before: int | None
    after: int | None
    slowdown: float
    lower_bound: bool = False
    confirmed: bool = False


@dataclass(frozen=True)
class States:
    """budget: shape (n,).  word: normal, slow or unclear, of each.  extents: the regimes among them.

    against_old: read against the old stack's trend, not by the curve itself.
    """

    budget: Array
    word: list[str]
    extents: tuple[Extent, ...]
    against_old: bool = False

    def at(self, budget: float) -> str:
        """The state of a budget that was measured."""
        return self.word[int(np.searchsorted(self.budget, budget))]


def own_states(anatomy: Anatomy) -> States:
    """What a curve shows by itself."""
    budget = anatomy.curve.budget
    extents = []
    for segment in anatomy.accepted:
        (before, first), (last, after) = segment.brackets.onset, segment.brackets.recovery
        extents.append(
            Extent(
                int(budget[first]),
                int(budget[last]),
                None if before is None else int(budget[before]),
                None if after is None else int(budget[after]),
                segment.slowdown.value,
                bool(anatomy.curve.censored[segment.first : segment.last + 1].any()),
                bool((anatomy.curve.n_processes[[segment.first, segment.last]] > 1).all()),
            )
        )
    return States(budget, states_in_words(anatomy), tuple(extents))


def speaks_for_itself(old: Anatomy, new: Anatomy) -> bool:
    """Whether the new curve's own reading counts: it has a verdict, and is no look at a few budgets."""
    return judge(new).verdict != "undetermined" and new.curve.n >= FEW * old.curve.n


def states_against_old(old: Side, new: Side, between: Contrast) -> States:
    """The new curve's common budgets, each against what the old trend, shifted, expects of a normal one there.

    slow: by SLOW_FROM and more, and CLEARLY so by two standard errors; normal: below SLOW_FROM by as much.
    """
    expectation = old.anatomy.expectation
    if expectation is None or np.isnan(between.shift.value):
        return States(between.budget, ["unclear"] * len(between.budget), (), against_old=True)
    beyond = new.anatomy.summary.centre[between.new] - expectation.log_latency[between.old] - between.shift.value
    error = np.sqrt(between.new_variance + expectation.variance[between.old] + between.shift.variance)
    word = np.full(len(beyond), "unclear", object)
    word[(beyond > math.log(SLOW_FROM)) & (beyond - _SURE * error > math.log(CLEARLY))] = "slow"
    is_bound = new.anatomy.curve.censored[between.new]
    word[(beyond + _SURE * error < math.log(SLOW_FROM)) & ~is_bound] = "normal"
    # as good as the old one's, and that one is normal
    word[between.reference & (word == "unclear") & (between.departs() > _UNLIKELY)] = "normal"
    return States(between.budget, word.tolist(), _extents_of(between.budget, word, beyond, is_bound), against_old=True)


def _extents_of(
    budget: Array, word: np.typing.NDArray[np.object_], beyond: Array, is_bound: Flags
) -> tuple[Extent, ...]:
    """Stretches of slow budgets that no normal one parts."""
    slow, normal = word == "slow", np.flatnonzero(word == "normal")
    found = []
    for first, last in runs(word != "normal"):
        inside = [k for k in range(first, last + 1) if slow[k]]
        if not inside:
            continue
        before, after = normal[normal < inside[0]], normal[normal > inside[-1]]
        found.append(
            Extent(
                int(budget[inside[0]]),
                int(budget[inside[-1]]),
                int(budget[before[-1]]) if len(before) else None,
                int(budget[after[0]]) if len(after) else None,
                math.exp(float(beyond[inside].mean())),
                bool(is_bound[inside].any()),
            )
        )
    return tuple(found)
