"""One curve taken apart: its trend, its states, and the stretches that look slow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.brackets import Brackets, find_brackets
from speedbump.analyse.chance import Disturbances, disturbed_requests
from speedbump.analyse.confidence import Interval, slowdown_interval
from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.ends import DoubtfulEnd, find_doubtful_end
from speedbump.analyse.evidence import CLEARLY, Grounds, Neighbours, compare_neighbours, why_not_accepted
from speedbump.analyse.levels import Level, split_levels
from speedbump.analyse.monotonicity import Fall, largest_fall
from speedbump.analyse.pattern import Pattern
from speedbump.analyse.rate import RateChange
from speedbump.analyse.states import Reading, emissions, find_states, probability_slow, transitions
from speedbump.analyse.summary import Summary, summarise
from speedbump.analyse.trend import Expectation, expect, powers_of

_WITHIN_LEVEL_SD = 0.12
_UNSTABLE_CHANCE = 0.002


@dataclass(frozen=True)
class Segment:
    """A stretch of budgets that looks slow: indices ``first`` to ``last``, inclusive.

    slowdown: against the trend.  neighbours: against the slower normal neighbour.  reason: why it is not
    accepted as a slow regime; None when it is.
    """

    first: int
    last: int
    slowdown: Interval
    neighbours: Neighbours
    levels: tuple[Level, ...]
    brackets: Brackets
    reason: str | None

    @property
    def accepted(self) -> bool:
        return self.reason is None


@dataclass(frozen=True)
class Noticeable:
    """Slow-downs that would have shown, had a single budget been slow; shape (n,). NaN: not known, for the budget is
    not normal; infinite: none up to SLOW_UP_TO would have.

    noticed: from this one on the verdict is another, nine times in ten.  called: from this one on the budget is called
    slow.
    """

    noticed: Array
    called: Array

    def between_ends(self) -> tuple[float, float]:
        """The largest noticed and called slow-down of the budgets between the ends; NaN where none is known."""
        return _largest(self.noticed[1:-1]), _largest(self.called[1:-1])

    def at_ends(self) -> tuple[float, float]:
        """The same of the first and the last budget."""
        return _largest(self.noticed[[0, -1]]), _largest(self.called[[0, -1]])


def _largest(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else math.nan


@dataclass(frozen=True)
class Anatomy:
    """What is known of a curve. Arrays have one value a budget.

    reading, expectation: None where no two budgets can be read as normal; p_slow is NaN then.
    unstable: the budget's requests, or processes, sit in both states.
    doubtful_end: looked for where no stretch looks slow.
    rate: the change of rate that the trend has.  pattern: what repeats along the budgets.  Both: see examine.
    noticeable: None until asked for, see noticed.find_noticeable.
    """

    curve: Curve
    summary: Summary
    reading: Reading | None
    expectation: Expectation | None
    normal: Flags
    p_slow: Array
    unstable: Flags
    segments: tuple[Segment, ...]
    doubtful_end: DoubtfulEnd | None
    fall: Fall | None
    rate: RateChange | None = None
    pattern: Pattern | None = None
    noticeable: Noticeable | None = None

    @property
    def accepted(self) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if s.accepted)

    @property
    def doubtful(self) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if not s.accepted)


def dissect(curve: Curve, rate: RateChange | None = None, starts: Sequence[Array | None] | None = None) -> Anatomy:
    """The anatomy of a curve of at least one budget, as it is (see examine for what else is looked at).

    rate: a change of rate that the trend has.  starts: as find_states takes them.
    """
    summary = summarise(curve)
    fall = largest_fall(summary, curve.censored)
    terms = powers_of(curve.budget) if rate is None else rate.terms(curve.budget)
    reading = find_states(curve, summary, terms, starts) if curve.n > 1 else None
    if reading is None:
        unknown = np.full(curve.n, np.nan)
        no = np.zeros(curve.n, bool)
        return Anatomy(curve, summary, None, None, no, unknown, no, (), None, fall, rate)
    x = np.log(curve.budget)
    normal = reading.normal(curve)
    expectation = expect(reading.trend, x, summary, normal)
    departure = summary.centre - reading.trend.log_latency
    variance = summary.variance + reading.trend.sd**2 + np.where(normal, 0.0, expectation.variance)
    p_slow = probability_slow(emissions(departure, np.sqrt(variance), curve.censored), transitions(curve.n))
    disturbances = disturbed_requests(curve, expectation.log_latency, normal)
    grounds = Grounds(curve, summary, normal, expectation.log_latency, p_slow, disturbances)
    segments = tuple(_describe(grounds, expectation, first, last) for first, last in runs(reading.slow))
    unstable = find_unstable(curve, expectation, segments, disturbances)
    end = None if segments else find_doubtful_end(curve, summary, reading, x, terms)
    return Anatomy(curve, summary, reading, expectation, normal, p_slow, unstable, segments, end, fall, rate)


def _describe(grounds: Grounds, expectation: Expectation, first: int, last: int) -> Segment:
    at = slice(first, last + 1)
    summary, censored = grounds.summary, grounds.curve.censored
    slowdown = slowdown_interval(first, last, summary, expectation, grounds.normal, censored)
    neighbours = compare_neighbours(first, last, summary, grounds.normal)
    levels = split_levels((summary.centre - grounds.expected)[at], summary.variance[at] + _WITHIN_LEVEL_SD**2)
    brackets = find_brackets(first, last, grounds.p_slow)
    reason = why_not_accepted(grounds, first, last, slowdown, neighbours)
    return Segment(first, last, slowdown, neighbours, tuple(levels), brackets, reason)


def find_unstable(
    curve: Curve, expectation: Expectation, segments: tuple[Segment, ...], disturbances: Disturbances
) -> Flags:
    """Budgets whose requests sit in both states, beyond what chance disturbances give.

    Outside accepted regimes: some requests slow by SLOW_FROM and others not, the slow ones no chance. Inside:
    at least two requests, and a fifth of them, as fast as a normal budget's.
    """
    unstable = np.zeros(curve.n, bool)
    inside = np.zeros(curve.n, bool)
    for segment in segments:
        if segment.accepted:
            inside[segment.first : segment.last + 1] = True
    for i in range(curve.n):
        departures = disturbances.departures[i]
        m = len(departures)
        if m < 2 or curve.censored[i]:
            continue
        n_slow = int((departures > math.log(SLOW_FROM)).sum())
        if inside[i]:
            n_fast = int((departures < math.log(CLEARLY)).sum())
            unstable[i] = n_fast >= 2 and n_fast >= m / 5
        elif 0 < n_slow < m:
            unstable[i] = disturbances.of_some(i, n_slow) < _UNSTABLE_CHANCE and not _outvoted(curve, i, expectation)
    return unstable


def _outvoted(curve: Curve, i: int, expectation: Expectation) -> bool:
    """Slow in one of three or more processes, with all the others normal: that process was disturbed."""
    centres = np.array([np.median(values) for values in curve.repeats[i]])
    slow = int((centres > expectation.log_latency[i] + math.log(CLEARLY)).sum())
    return len(centres) >= 3 and slow == 1


def runs(flags: Flags) -> list[tuple[int, int]]:
    """First and last index of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
