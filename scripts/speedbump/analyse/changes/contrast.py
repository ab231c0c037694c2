"""Two series alike but for their place, set against each other budget by budget."""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from speedbump.analyse.chance import PROCESS_RATE, Disturbances, learn
from speedbump.analyse.confidence import SLOW_SD
from speedbump.analyse.curve import Array, Flags, Indices
from speedbump.analyse.segments import Anatomy, runs
from speedbump.analyse.summary import PRIOR_DF, PROCESS_SD

SESSION_SD = 0.02
"""Standard deviation of a whole session in logs, beyond what the fixed workload shows: a machine is not equally fast
on two days. One session a side says nothing of it, so it is set."""
DISTURBED_SD = 0.3
"""Further standard deviation of a budget all of whose processes were disturbed."""
ALPHA = 0.05
"""Chance that a place compared with itself shows any change: of all its tests together."""
LOOKS_CHANGED = 0.01
"""Neighbours whose own p value lies below this are one stretch, which a disturbance must explain as a whole."""
_REITERATIONS = 4
_CLIP = 2.5
_CLIPPED = 1.05
"""What clipping at that many standard deviations takes from a normal variance."""
_EFFICIENCY = 0.7
_DRIFT_SHOWS = 2.0
_POWER = 1.3
"""Standard errors between a limit and the change that passes it nine times in ten."""


@dataclass(frozen=True)
class Estimate:
    """A log ratio and its variance; NaN where there is none."""

    value: float
    variance: float


NOTHING = Estimate(0.0, 0.0)
UNKNOWN = Estimate(float("nan"), float("nan"))


@dataclass(frozen=True)
class Side:
    """One of the two series.

    sentinel, host_sentinel: log seconds of the fixed workloads around its processes, the middle of them; UNKNOWN where
    none ran.
    """

    anatomy: Anatomy
    sentinel: Estimate = UNKNOWN
    host_sentinel: Estimate = UNKNOWN


@dataclass(frozen=True)
class Contrast:
    """The budgets that both have, m of them. Arrays have shape (m,); log ratios are new over old.

    old, new: their indices in the two curves.
    log_ratio, variance: of the centres; where one is a lower bound, of that.  new_variance: of the new centre alone.
    bound: 0; 1 where the new latency is a lower bound, -1 where the old one is, 2 where both are.
    reference: budgets read as normal in both, from which ``shift`` is learnt.
    disturbed: every process of it was disturbed, on one side at least.
    busier: why nothing can be told of the two, None where that is no hindrance: see ``busyness``.
    shift: of the normal trend.  drift: of the fixed workload, 0 where none ran or none shows.
    df: degrees of freedom behind the variances.
    p: of no change, two-sided.  shift_p: of no shift.
    chance: probability that disturbed processes alone make such a stretch somewhere.
    """

    budget: Array
    old: Indices
    new: Indices
    log_ratio: Array
    variance: Array
    new_variance: Array
    bound: Indices
    reference: Flags
    disturbed: Flags
    shift: Estimate
    drift: Estimate
    df: float
    p: Array
    shift_p: float
    chance: Array
    busier: str | None = None

    def half(self, variance: float | Array) -> Array:
        """Half of a 95 % interval."""
        return np.asarray(stdtrit(self.df, 0.975) * np.sqrt(variance))

    def detectable(self, variance: float, n_tests: int) -> float:
        """Log change that would have been found nine times in ten among so many tests."""
        return float((stdtrit(self.df, 1 - ALPHA / 2 / n_tests) + _POWER) * np.sqrt(variance))

    def departs(self) -> Array:
        """p values of no change beyond the shift."""
        middle = 0.0 if np.isnan(self.shift.value) else self.shift.value
        return self._p_of(self.log_ratio - middle)

    def _p_of(self, log_ratio: Array) -> Array:
        return p_value(log_ratio, self.variance, self.df, self.bound)


def p_value(log_ratio: Array, variance: Array, df: float, bound: Indices) -> Array:
    """Two-sided p of Student's t. A bound speaks only for a change in its own direction."""
    t = log_ratio / np.sqrt(variance)
    silent = (bound == 2) | ((bound == 1) & (t < 0)) | ((bound == -1) & (t > 0))
    return np.asarray(np.where(silent, 1.0, 2 * stdtr(df, -np.abs(t))))


def contrast(old: Side, new: Side, slow_in_new: Flags) -> Contrast:
    """The contrast of two series. slow_in_new: the new curve's budgets that may be slow, and are no reference.

    A latency's error is that of its repeats and that of its process. One process a budget does not show the
    latter, but the ratios do: those of normal budgets scatter around their middle by both. So the process' variance
    is PROCESS_SD squared, and the series' unrest, times a factor that is learnt from that scatter, clipped, and worth
    PRIOR_DF degrees of freedom before any is seen. Cells are measured in the same random order, so a drift within a
    session is part of that scatter.

    The middle of the ratios is the shift of the trend: weighted, and robust (Cauchy). Where the fixed workload
    shifted as well, the stack's own share is somewhere between the shift and what the workload leaves of it, since a
    stack may also change the workload: both must speak for a change.
    """
    a, b = old.anatomy, new.anatomy
    budget, i, j = np.intersect1d(a.curve.budget, b.curve.budget, return_indices=True)
    log_ratio = b.summary.centre[j] - a.summary.centre[i]
    bound = np.where(b.curve.censored[j], 1, 0) + np.where(a.curve.censored[i], -1, 0)
    bound = np.where(b.curve.censored[j] & a.curve.censored[i], 2, bound).astype(np.int64)
    disturbed = a.curve.disturbed[i] | b.curve.disturbed[j]
    slow = ~a.normal[i] & ~a.curve.censored[i]
    reference = a.normal[i] & ~slow_in_new[j] & (bound == 0)
    if (reference & ~disturbed).sum() >= reference.sum() / 2:
        reference = reference & ~disturbed
    new_repeats, new_process = _of_repeats(b)[j], _of_process(b)[j]
    repeats = _of_repeats(a)[i] + new_repeats
    process = _of_process(a)[i] + new_process
    shift, scale, freedom = _learn_shift(log_ratio[reference], repeats[reference], process[reference])
    process = np.where(slow & slow_in_new[j], np.maximum(process, SLOW_SD**2), process)
    variance = repeats + scale * process + 2 * SESSION_SD**2 + np.where(disturbed, DISTURBED_SD**2, 0.0)
    drift, df = _drift(old, new), PRIOR_DF + freedom
    p = _both_speak(log_ratio, variance, drift, df, bound)
    shift_p = _both_speak(np.array([shift.value]), np.array([shift.variance]), drift, df, np.zeros(1, np.int64))[0]
    chance = _chance(a, b, i, j, log_ratio, reference, shift, p)
    return Contrast(
        budget, i, j, log_ratio, variance, new_repeats + scale * new_process,
        bound, reference, disturbed, shift, drift, df, p,
        1.0 if np.isnan(shift_p) else float(shift_p), chance,
    )  # fmt: skip


def _of_repeats(anatomy: Anatomy) -> Array:
    """Variance of every centre that its repeats account for."""
    summary = anatomy.summary
    moderated = (PRIOR_DF * summary.pooled + summary.df * summary.spread) / (PRIOR_DF + summary.df) / summary.count
    rest = (
        summary.variance - (summary.unrest**2 + np.where(summary.processes > 1, PROCESS_SD**2, 0.0)) / summary.processes
    )
    return np.asarray(np.maximum(rest, moderated))


def _of_process(anatomy: Anatomy) -> Array:
    """Variance of every centre that its processes account for, before the ratios are seen."""
    return np.asarray((PROCESS_SD**2 + anatomy.summary.unrest**2) / anatomy.summary.processes)


def _learn_shift(log_ratio: Array, repeats: Array, process: Array) -> tuple[Estimate, float, float]:
    """Shift of the trend, the factor on the process' variance, and its degrees of freedom."""
    n = len(log_ratio)
    if n == 0:
        return UNKNOWN, 1.0, 0.0
    freedom, middle, scale = _EFFICIENCY * (n - 1), float(np.median(log_ratio)), 1.0
    weight = np.ones(n)
    for _ in range(_REITERATIONS):
        rest = log_ratio - middle
        spread = max(1.4826 * float(np.median(np.abs(rest))), 0.5 * float(np.sqrt(repeats.mean())))
        clipped = np.clip(rest, -_CLIP * spread, _CLIP * spread)
        seen = _CLIPPED * float((clipped**2).sum()) / max(n - 1, 1)
        scale = max(seen - float(repeats.mean()), 0.0) / float(process.mean())
        scale = (PRIOR_DF + freedom * scale) / (PRIOR_DF + freedom)
        precision = 1 / (repeats + scale * process)
        weight = precision / (1 + rest**2 * precision / 4)
        middle = float((weight * log_ratio).sum() / weight.sum())
    return Estimate(middle, 1.1 / float(weight.sum()) + 2 * SESSION_SD**2), scale, freedom


def _drift(old: Side, new: Side) -> Estimate:
    value, variance = new.sentinel.value - old.sentinel.value, new.sentinel.variance + old.sentinel.variance
    return Estimate(value, variance) if abs(value) > _DRIFT_SHOWS * np.sqrt(variance) else NOTHING


def _both_speak(log_ratio: Array, variance: Array, drift: Estimate, df: float, bound: Indices) -> Array:
    """p of no change: of the ratio, and of what the fixed workload leaves of it, the larger."""
    plain = p_value(log_ratio, variance, df, bound)
    if drift is NOTHING:
        return plain
    rest = log_ratio - drift.value
    left = p_value(rest, variance + drift.variance, df, bound)
    return np.asarray(np.where(np.sign(rest) == np.sign(log_ratio), np.maximum(plain, left), 1.0))


def _chance(
    a: Anatomy, b: Anatomy, i: Indices, j: Indices, log_ratio: Array, reference: Flags, shift: Estimate, p: Array
) -> Array:
    """Of every budget in a stretch that looks changed; 0 elsewhere.

    A disturbance slows down whole processes, so what is slower may be one of the new processes, and what is faster
    one of the old. How often that happens is learnt from the reference (see Disturbances).
    """
    chance = np.zeros(len(p))
    middle = 0.0 if np.isnan(shift.value) else shift.value
    for sign, one, at, other, beside in ((1, b, j, a, i), (-1, a, i, b, j)):
        disturbances = _processes(one, at, other.summary.centre[beside], reference, sign * middle)
        for first, last in runs((p < LOOKS_CHANGED) & (np.sign(log_ratio) == sign)):
            chance[first : last + 1] = disturbances.of_segment(first, last)
    return chance


def _processes(one: Anatomy, at: Indices, other: Array, reference: Flags, middle: float) -> Disturbances:
    """How much slower the processes of one side are than the other side's centres."""
    departures = [
        np.array([float(np.median(values)) for values in one.curve.repeats[k]]) - other[n]
        if one.curve.repeats[k]
        else one.curve.stops[k] - other[n]
        for n, k in enumerate(at)
    ]
    usual = learn([values - middle for values in departures], reference, PROCESS_RATE)
    return Disturbances(tuple(departures), reference, PROCESS_RATE, usual.sorted_normal)
