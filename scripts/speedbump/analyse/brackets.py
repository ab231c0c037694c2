"""Brackets: between which two budgets a regime begins and ends."""

from dataclasses import dataclass

from speedbump.analyse.curve import Array

SURELY_NORMAL = 0.02
SURELY_SLOW = 0.98


@dataclass(frozen=True)
class Brackets:
    """Indices of budgets. onset: last surely normal before the regime, first surely slow in it; recovery:
    last surely slow, first surely normal after it. None: no such budget, the regime is open there.
    """

    onset: tuple[int | None, int]
    recovery: tuple[int, int | None]


def find_brackets(first: int, last: int, p_slow: Array) -> Brackets:
    """The brackets of the regime from ``first`` to ``last`` (indices, inclusive).

    Widened over budgets of doubtful state to the nearest with P(slow) <= SURELY_NORMAL outside the regime
    and >= SURELY_SLOW inside it; the regime's own end stands where no inner budget is that sure.
    """
    inside = range(first, last + 1)
    sure = [i for i in inside if p_slow[i] >= SURELY_SLOW]
    before = [i for i in range(first) if p_slow[i] <= SURELY_NORMAL]
    after = [i for i in range(last + 1, len(p_slow)) if p_slow[i] <= SURELY_NORMAL]
    return Brackets(
        (before[-1] if before else None, sure[0] if sure else last),
        (sure[-1] if sure else first, after[0] if after else None),
    )
