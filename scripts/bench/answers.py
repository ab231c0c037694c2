"""What a method says of a curve."""

from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import Curve
from speedbump.analyse.examine import examine
from speedbump.analyse.verdict import judge


@dataclass(frozen=True)
class Answer:
    """What a method says of a curve: regimes as (first, last) indices; slow-down and interval of each, NaN
    where the method gives none; budgets it calls unstable; the indices between which it puts a step that stays.
    """

    regimes: list[tuple[int, int]]
    slowdowns: list[tuple[float, float, float]]
    verdict: str
    unstable: tuple[int, ...] = ()
    step: tuple[int, int] | None = None


def answer(curve: Curve) -> Answer:
    """The regime finder's."""
    anatomy = examine(curve)
    accepted = anatomy.accepted
    slowdowns = [(s.slowdown.value, s.slowdown.low, s.slowdown.high) for s in accepted]
    place = np.searchsorted(curve.budget, anatomy.curve.budget).tolist()  # some budgets may be set aside
    unstable = tuple(place[i] for i in np.flatnonzero(anatomy.unstable))
    regimes = [(place[s.first], place[s.last]) for s in accepted]
    return Answer(regimes, slowdowns, judge(anatomy).verdict, unstable)
