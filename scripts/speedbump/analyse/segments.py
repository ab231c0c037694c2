"""One curve taken apart: its trend, its states, and the stretches that look slow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from speedbump.analyse.aside import Aside, expectation_at, fast_budgets, silent_budgets
from speedbump.analyse.brackets import Brackets, find_brackets
from speedbump.analyse.chance import Disturbances, disturbed_requests
from speedbump.analyse.confidence import Interval, slowdown_interval
from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.ends import DoubtfulEnd, find_doubtful_end
from speedbump.analyse.evidence import CLEARLY, Grounds, Neighbours, compare_neighbours, why_not_accepted
from speedbump.analyse.levels import Level, split_levels
from speedbump.analyse.monotonicity import Fall, fall_after, largest_fall, unusual_fall
from speedbump.analyse.pattern import Pattern
from speedbump.analyse.rate import RateChange
from speedbump.analyse.states import Reading, emissions, find_states, probability_slow, transitions
from speedbump.analyse.steps import Step, find_step, read_open, take_out
from speedbump.analyse.summary import Summary, summarise
from speedbump.analyse.trend import Expectation, expect, powers_of

Starts = Sequence[Array | None] | None
"""Trends that the reading of a curve starts from, as states.find_states takes them."""

_WITHIN_LEVEL_SD = 0.12
_UNSTABLE_CHANCE = 0.002


@dataclass(frozen=True)
class Segment:
    """A stretch of budgets that looks slow: indices ``first`` to ``last``, inclusive.

    slowdown: against the trend.  neighbours: against the slower normal neighbour.  reason: why it is not
    accepted; None when it is.  kind: one of tables.REGIME_KINDS; a step's stretch is its slow side.
    """

    first: int
    last: int
    slowdown: Interval
    neighbours: Neighbours
    levels: tuple[Level, ...]
    brackets: Brackets
    reason: str | None
    kind: str = "regime"

    @property
    def accepted(self) -> bool:
        return self.reason is None

    @property
    def is_step(self) -> bool:
        return self.kind != "regime"


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

    curve: without the budgets that are set aside.
    reading, expectation: None where no two budgets can be read as normal; p_slow is NaN then.
    expectation: on a step's fast side and on its slow one what the fast side's trend suggests.  level: log latency
    that a step adds, 0 without one.  normal: the budgets on the trend, none of a step's slow side.
    unstable: the budget's requests, or processes, sit in both states.
    doubtful_end: looked for where no stretch looks slow.
    fall: the most significant one anywhere.  unusual_fall: beyond what padding makes, looked for where there is one.
    regime_fall: from an accepted slow regime to what lies beyond it.
    rate: the change of rate that the trend has.  pattern: what repeats along the budgets.  Both: see examine.
    noticeable: None until asked for, see noticed.find_noticeable.
    """

    curve: Curve
    summary: Summary
    reading: Reading | None
    expectation: Expectation | None
    level: Array
    normal: Flags
    p_slow: Array
    unstable: Flags
    segments: tuple[Segment, ...]
    doubtful_end: DoubtfulEnd | None
    fall: Fall | None
    unusual_fall: Fall | None
    regime_fall: Fall | None
    rate: RateChange | None = None
    aside: Aside | None = None
    pattern: Pattern | None = None
    noticeable: Noticeable | None = None

    @property
    def expected(self) -> Array | None:
        """Log seconds of a normal budget, of a step's slow side as well; None where there is no trend."""
        return None if self.expectation is None else self.expectation.log_latency + self.level

    @property
    def slow(self) -> Flags:
        """The budgets off the trend: those read as slow, and a step's slow side."""
        beyond_step = self.level > 0
        return beyond_step if self.reading is None else self.reading.slow | beyond_step

    @property
    def accepted(self) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if s.accepted)

    @property
    def doubtful(self) -> tuple[Segment, ...]:
        return tuple(s for s in self.segments if not s.accepted)


def dissect(curve: Curve, rate: RateChange | None = None, starts: Starts = None) -> Anatomy:
    """The anatomy of a curve of at least one budget, as it is (see examine for what else is looked at).

    rate: a change of rate that the trend has.  starts: as find_states takes them.
    """
    summary = summarise(curve)
    reading = _read(curve, summary, rate, starts)
    fast = fast_budgets(curve, summary, reading)
    kept, own, reading = _without(fast, curve, summary, reading, rate, starts)
    anatomy = _dissect(kept, own, reading, rate)
    if curve.censored.all():
        return anatomy
    silent = np.zeros(curve.n, bool)
    silent[~fast] = silent_budgets(kept, anatomy.expected)
    out = fast | silent
    if silent.any():
        anatomy = _dissect(*_without(out, curve, summary, reading, rate, starts), rate)
    if not out.any():
        return anatomy
    expected = np.full(curve.n, np.nan)
    if anatomy.normal.sum() > 1:
        normal = np.zeros(curve.n, bool)
        normal[~out] = anatomy.normal
        expected = expectation_at(curve, summary, normal).log_latency
    return replace(anatomy, aside=Aside(curve.only(out), fast[out], expected[out]))


def _terms(curve: Curve, rate: RateChange | None) -> Array:
    return powers_of(curve.budget) if rate is None else rate.terms(curve.budget)


def _read(curve: Curve, summary: Summary, rate: RateChange | None, starts: Starts) -> Reading | None:
    return find_states(curve, summary, _terms(curve, rate), starts) if curve.n > 1 else None


def _without(
    out: Flags, curve: Curve, summary: Summary, reading: Reading | None, rate: RateChange | None, starts: Starts
) -> tuple[Curve, Summary, Reading | None]:
    """The curve without some of its budgets, summarised and read; what is known already where there are none."""
    if not out.any():
        return curve, summary, reading
    kept = curve.only(~out)
    own = summarise(kept)
    others = None if starts is None else [start if start is None else start[~out] for start in starts]
    return kept, own, _read(kept, own, rate, others)


def _dissect(curve: Curve, summary: Summary, reading: Reading | None, rate: RateChange | None) -> Anatomy:
    fall = largest_fall(summary, curve.censored)
    # what is no fall is no unusual one
    beyond_usual = unusual_fall(summary, curve.censored) if fall and fall.significant else None
    if reading is None:
        unknown, zero, no = np.full(curve.n, np.nan), np.zeros(curve.n), np.zeros(curve.n, bool)
        return Anatomy(curve, summary, None, None, zero, no, unknown, no, (), None, fall, beyond_usual, None, rate)
    x = np.log(curve.budget)
    step = find_step(curve, summary, reading) if rate is None else None  # what a change of rate explains is no step
    if step and not step.stays:
        reading, step = read_open(curve, summary, step) or reading, None
    if step:
        reading = step.reading
    level = step.level() if step else np.zeros(curve.n)
    on_level = reading.normal(curve)
    expectation = expect(reading.trend, x, take_out(summary, level), on_level)
    departure = summary.centre - level - reading.trend.log_latency
    variance = summary.variance + reading.trend.sd**2 + np.where(on_level, 0.0, expectation.variance)
    p_slow = probability_slow(emissions(departure, np.sqrt(variance), curve.censored), transitions(curve.n))
    with_level = replace(expectation, log_latency=expectation.log_latency + level)
    disturbances = disturbed_requests(curve, with_level.log_latency, on_level)
    grounds = Grounds(curve, summary, on_level, with_level.log_latency, p_slow, disturbances)
    segments = [_describe(grounds, with_level, first, last) for first, last in runs(reading.slow)]
    unstable = find_unstable(curve, with_level.log_latency, segments, disturbances)
    normal = on_level
    if step:
        normal = on_level & ~step.slow
        p_slow = np.maximum(p_slow, step.p_slow_side)
        segments = _with_step(step, segments, curve, summary, expectation, normal, p_slow)
    end = None if segments else find_doubtful_end(curve, summary, reading, x, _terms(curve, rate))
    regimes = [(s.first, s.last) for s in segments if s.accepted and not s.is_step]
    regime_fall = fall_after(regimes, summary, on_level, curve.censored)
    return Anatomy(
        curve,
        summary,
        reading,
        expectation,
        level,
        normal,
        p_slow,
        unstable,
        tuple(segments),
        end,
        fall,
        beyond_usual,
        regime_fall,
        rate,
    )


def _with_step(
    step: Step,
    regimes: list[Segment],
    curve: Curve,
    summary: Summary,
    expectation: Expectation,
    normal: Flags,
    p_slow: Array,
) -> list[Segment]:
    """The step's slow side as a stretch of its own, first, and the regimes."""
    places = np.flatnonzero(step.slow)
    first, last = int(places[0]), int(places[-1])
    disturbances = disturbed_requests(curve, expectation.log_latency, normal)
    grounds = Grounds(curve, summary, normal, expectation.log_latency, p_slow, disturbances)
    neighbours = compare_neighbours(first, last, summary, expectation.log_latency, normal)
    brackets = find_brackets(first, last, p_slow)
    reason = why_not_accepted(grounds, first, last, step.interval, neighbours)
    kind = "step up" if step.up else "step down"
    return [Segment(first, last, step.interval, neighbours, (), brackets, reason, kind), *regimes]


def _describe(grounds: Grounds, expectation: Expectation, first: int, last: int) -> Segment:
    at = slice(first, last + 1)
    summary, censored = grounds.summary, grounds.curve.censored
    slowdown = slowdown_interval(first, last, summary, expectation, grounds.normal, censored)
    neighbours = compare_neighbours(first, last, summary, grounds.expected, grounds.normal)
    levels = split_levels((summary.centre - grounds.expected)[at], summary.variance[at] + _WITHIN_LEVEL_SD**2)
    brackets = find_brackets(first, last, grounds.p_slow)
    reason = why_not_accepted(grounds, first, last, slowdown, neighbours)
    return Segment(first, last, slowdown, neighbours, tuple(levels), brackets, reason)


def find_unstable(curve: Curve, expected: Array, segments: Sequence[Segment], disturbances: Disturbances) -> Flags:
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
            unstable[i] = disturbances.of_some(i, n_slow) < _UNSTABLE_CHANCE and not _outvoted(curve, i, expected)
    return unstable


def _outvoted(curve: Curve, i: int, expected: Array) -> bool:
    """Slow in one of three or more processes, with all the others normal: that process was disturbed."""
    centres = np.array([np.median(values) for values in curve.repeats[i]])
    slow = int((centres > expected[i] + math.log(CLEARLY)).sum())
    return len(centres) >= 3 and slow == 1


def runs(flags: Flags) -> list[tuple[int, int]]:
    """First and last index of every run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
