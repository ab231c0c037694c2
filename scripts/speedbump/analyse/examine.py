"""The whole examination of a curve: its anatomy against a trend that may change its rate, and patterns along it."""

from dataclasses import replace

from speedbump.analyse.curve import Curve
from speedbump.analyse.pattern import LONGEST_OF_REGIMES, find_pattern
from speedbump.analyse.rate import RateChange, find_rate_change
from speedbump.analyse.segments import Anatomy, dissect

MOST_LIKE_A_REGIME = 3
"""So many budgets beyond a change of rate are fitted by a regime that has not ended yet as well."""


def examine(curve: Curve, of_steps: RateChange | None = None) -> Anatomy:
    """The anatomy of a curve of at least one budget.

    of_steps: the change of rate that the times of single steps show; left out, it is looked for in the totals.

    A change of rate is believed where no more budgets are slow regimes against a trend that has it: what a smooth
    trend shows as an open regime from there on may be no more than that, where more than MOST_LIKE_A_REGIME budgets
    show it, or their steps do. A pattern makes its slow stretches doubtful,
    for every other length in a regime of its own is no set of regimes.
    """
    plain = dissect(curve)
    pattern = find_pattern(plain.curve, plain.summary)
    if pattern is not None and (pattern.size <= LONGEST_OF_REGIMES or not plain.accepted):
        doubtful = tuple(replace(segment, reason=pattern.told()) for segment in plain.segments)
        return replace(plain, segments=doubtful, pattern=pattern)
    change = of_steps or find_rate_change(plain.curve, plain.summary)
    if change is None:
        return plain
    few = (plain.curve.budget > change.at).sum() <= MOST_LIKE_A_REGIME
    if plain.accepted and few and of_steps is None:
        return plain
    changed = dissect(curve, change)
    return changed if _n_slow(changed) <= _n_slow(plain) else plain


def _n_slow(anatomy: Anatomy) -> int:
    return sum(segment.last - segment.first + 1 for segment in anatomy.accepted)
