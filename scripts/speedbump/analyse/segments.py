"""One curve taken apart: its trend, its states, and the stretches that look slow."""

import math
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.brackets import Brackets, find_brackets
from speedbump.analyse.chance import Disturbances, disturbed_requests
from speedbump.analyse.confidence import Interval, slowdown_interval
from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.detection import detectable_slowdown
from speedbump.analyse.ends import DoubtfulEnd, find_doubtful_end
from speedbump.analyse.evidence import CLEARLY, Grounds, Neighbours, compare_neighbours, why_not_accepted
from speedbump.analyse.levels import Level, split_levels
from speedbump.analyse.monotonicity import Fall, largest_fall
from speedbump.analyse.states import Reading, emissions, find_states, probability_slow, transitions
from speedbump.analyse.summary import Summary, summarise
from speedbump.analyse.trend import Expectation, expect

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
class Anatomy:
    """What is known of a curve. Arrays have one value a budget.

    reading, expectation: None where no two budgets can be read as normal; p_slow and detectable are NaN then.
    unstable: the budget's requests, or processes, sit in both states.
    doubtful_end: looked for where no stretch looks slow.
    """

    curve: Curve
    summary: Summary
    reading: Reading | None
    expectation: Expectation | None
    normal: Flags
    p_slow: Array
    unstable: Flags
    detectable: Array
    segments: tuple[Segment, ...]
    doubtful_end: DoubtfulEnd | None
    fall: Fall | None

    @property
    def accepted(self) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if s.accepted)

    @property
    def doubtful(self) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if not s.accepted)


def dissect(curve: Curve) -> Anatomy:
    """The anatomy of a curve of at least one budget."""
    summary = summarise(curve)
    fall = largest_fall(summary, curve.censored)
    reading = find_states(curve, summary) if curve.n > 1 else None
    if reading is None:
        unknown = np.full(curve.n, np.nan)
        no = np.zeros(curve.n, bool)
        return Anatomy(curve, summary, None, None, no, unknown, no, unknown, (), None, fall)
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
    end = None if segments else find_doubtful_end(curve, summary, reading, x)
    detectable = detectable_slowdown(x, summary, reading.trend, disturbances)
    return Anatomy(curve, summary, reading, expectation, normal, p_slow, unstable, detectable, segments, end, fall)


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
