"""What a method says of a curve."""

from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import Curve
from speedbump.analyse.examine import examine
from speedbump.analyse.verdict import judge


@dataclass(frozen=True)
class Answer:
    """What a method says of a curve: regimes as (first, last) indices; slow-down and interval of each, NaN
    where the method gives none; budgets it calls unstable.
    """

    regimes: list[tuple[int, int]]
    slowdowns: list[tuple[float, float, float]]
    verdict: str
    unstable: tuple[int, ...] = ()


def answer(curve: Curve) -> Answer:
    """The regime finder's."""
    anatomy = examine(curve)
    accepted = anatomy.accepted
    slowdowns = [(s.slowdown.value, s.slowdown.low, s.slowdown.high) for s in accepted]
    unstable = tuple(np.flatnonzero(anatomy.unstable).tolist())
    return Answer([(s.first, s.last) for s in accepted], slowdowns, judge(anatomy).verdict, unstable)
