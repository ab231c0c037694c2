"""What would have been noticed: the smallest slow-down of a single budget that the verdict would have shown.

Found by injection. One budget's requests are replaced by slow ones, the whole analysis is run again, and the
slow-down is raised until the verdict is another. No test of the analysis is modelled here, so that whatever it
learns to see is counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import ndtri

from speedbump.analyse.curve import Array, Curve, Flags, Indices
from speedbump.analyse.evidence import LEAST_NORMAL
from speedbump.analyse.segments import Anatomy, Noticeable, dissect
from speedbump.analyse.states import SLOW_UP_TO
from speedbump.analyse.summary import PRIOR_DF
from speedbump.analyse.verdict import BUSY, LEAST_BUDGETS, judge_found, suspected

MISSED = 0.02
"""Share of slow-downs of the stated size that may go unnoticed, as the noise is modelled here; what simulated
series show is in docs/regimes.md, where a tenth is promised."""
_LADDER = np.exp(np.arange(math.log(1.1), math.log(SLOW_UP_TO) + 0.05, 0.05))
"""Slow-downs tried; the stated one is right to 5 %."""
_FURTHER = (5, 14, 32)
"""At the ends, and everywhere in a short curve, rungs so far above the stated one are tried as well, 1.3, 2 and 5
times as large: one that is not noticed there means that something larger passes for a bend."""
_SHORT = 12
_SINGLE_DF = 1.0
"""Degrees of freedom that the scatter assumed of single requests is worth, for nothing shows it but themselves."""
_PLACES, _LEAST_PLACES = 24, 8
_LONG = 60
"""Budgets that are tried one by one; between them the others of a longer curve take the larger of two. Of more than
_LONG budgets fewer are tried, for each try takes as much longer.
"""
_UNLIKE = 1.5
"""Budgets whose distance to the next differs by this factor are not between alike ones."""
_OF_TREND = 2.0
"""The scatter of the others counts twice: it moves the expectation, and widens what passes for a bend."""


def find_noticeable(anatomy: Anatomy, at: Sequence[int] | None = None) -> Noticeable:
    """Of every normal budget, what would have been noticed and what would have been called, had it alone been slow.

    Where the curve is smooth, a slow-down is noticed as soon as the verdict is another one; where something was
    found already, as soon as the budget itself is doubted or called. The budgets of accepted regimes are left out,
    so that the others are judged by what is normal. NaN where that cannot be known: budgets that are slow or doubted
    as it is, fewer than LEAST_BUDGETS budgets, a busy machine, a pattern along the budgets.

    at: indices of the budgets to try, of a curve without accepted regimes; all if left out.
    """
    n = anatomy.curve.n
    nothing = Noticeable(np.full(n, np.nan), np.full(n, np.nan))
    kept = _outside_regimes(anatomy)
    if kept.sum() < LEAST_BUDGETS or anatomy.summary.unrest > BUSY or anatomy.pattern is not None:
        return nothing
    rest = anatomy if kept.all() else dissect(anatomy.curve.only(kept), anatomy.rate)
    if rest.expectation is None or rest.normal.sum() < LEAST_NORMAL:
        return nothing
    noticed, called = _Injection(rest).search(at)
    for values, found in ((nothing.noticed, noticed), (nothing.called, called)):
        values[kept] = found
    return nothing


def with_noticeable(anatomy: Anatomy) -> Anatomy:
    """The anatomy with what would have been noticed."""
    return replace(anatomy, noticeable=find_noticeable(anatomy))


@dataclass(frozen=True)
class _Seen:
    noticed: bool
    called: bool


class _Injection:
    """Slow-downs put into one curve, budget by budget, rung by rung of the ladder; nothing is tried twice."""

    def __init__(self, anatomy: Anatomy) -> None:
        assert anatomy.expectation is not None
        self.anatomy = anatomy
        self.smooth = judge_found(anatomy).verdict == "smooth"
        summary, curve = anatomy.summary, anatomy.curve
        error = np.sqrt(_scatter(anatomy) * (1 + _OF_TREND * _leverage(anatomy)) + anatomy.expectation.variance)
        self.unlucky = anatomy.expectation.log_latency + float(ndtri(MISSED)) * error
        """Log seconds that a normal budget's requests would average in an unlucky draw."""
        spread = (PRIOR_DF * summary.pooled + summary.df * summary.spread) / (PRIOR_DF + summary.df)
        self.sd = np.sqrt(spread)
        self.open: Flags = anatomy.normal & ~_doubted(anatomy) & ~curve.censored
        self.tried: dict[tuple[int, int], _Seen] = {}

    def search(self, at: Sequence[int] | None = None) -> tuple[Array, Array]:
        """Noticed and called slow-downs, shape (n,). ``at``: see find_noticeable."""
        n = self.anatomy.curve.n
        found = {kind: np.full(n, np.nan) for kind in ("noticed", "called")}
        places = [int(i) for i in (self._places() if at is None else at) if self.open[i]]
        for kind, values in found.items():
            rung = 0
            for i in places:
                rung = self._lowest(i, kind, rung)
                values[i] = _LADDER[rung] if rung < len(_LADDER) else np.inf
                rung = min(rung, len(_LADDER) - 1)
        for before, after in pairwise(places):
            for i in range(before + 1, after) if at is None else ():
                if self.open[i]:
                    for values in found.values():
                        values[i] = max(values[before], values[after])
        return found["noticed"], found["called"]

    def _places(self) -> Indices:
        """Indices of the budgets to try: all of a short curve; of a longer one the outermost two on either side,
        some between, and those that differ from the one before in requests or distance.
        """
        curve = self.anatomy.curve
        n, gaps = curve.n, np.diff(np.log(curve.budget))
        if n <= _PLACES:
            return np.arange(n)
        chosen = np.zeros(n, bool)
        most = max(_LEAST_PLACES, round(_PLACES * min(1.0, _LONG / n)))
        chosen[np.linspace(0, n - 1, most).round().astype(int)] = True
        chosen[[1, -2]] = True
        if n > _LONG:
            return np.flatnonzero(chosen)
        sizes = [tuple(map(len, processes)) for processes in curve.repeats]
        if curve.published is not None:
            sizes = [(int(count),) for count in curve.published.count]
        unlike = np.array([one != other for one, other in pairwise(sizes)])
        unlike[1:] |= np.abs(np.diff(np.log(gaps))) > math.log(_UNLIKE)
        chosen[1:] |= unlike
        chosen[:-1] |= unlike
        return np.flatnonzero(chosen)

    def _lowest(self, i: int, kind: str, near: int) -> int:
        """The lowest rung from which on the budget is noticed or called, len(_LADDER) for none; searched from
        ``near`` in growing strides, then by bisection.
        """
        top = len(_LADDER)

        def shows(rung: int) -> bool:
            return bool(getattr(self._try(i, rung), kind))

        below, above, stride = -1, top, 1
        if shows(near):
            above = near
            while above - stride > below and shows(above - stride):
                above, stride = above - stride, 2 * stride
            below = max(above - stride, below)
        else:
            below = near
            while below + stride < top and not shows(below + stride):
                below, stride = below + stride, 2 * stride
            above = min(below + stride, top)
            if above == top and below < top - 1 and shows(top - 1):
                above = top - 1
        while above - below > 1:
            middle = (above + below) // 2
            below, above = (below, middle) if shows(middle) else (middle, above)
        n = self.anatomy.curve.n
        for further in _FURTHER if n <= _SHORT or not 2 <= i < n - 2 else ():
            if above + further < top and not shows(above + further):
                return self._lowest(i, kind, above + further)
        return above

    def _try(self, i: int, rung: int) -> _Seen:
        if (i, rung) not in self.tried:
            self.tried[i, rung] = self._look(i, float(_LADDER[rung]))
        return self.tried[i, rung]

    def _look(self, i: int, slowdown: float) -> _Seen:
        before = self.anatomy
        curve = _with_latency(before.curve, i, self.unlucky[i] + math.log(slowdown), float(self.sd[i]))
        assert before.reading is not None
        after = dissect(curve, before.rate, (before.reading.trend.log_latency, None))
        if after.aside is not None:  # against it, others look too fast to be true, or stopped too early
            return _Seen(noticed=True, called=False)
        called = any(segment.first <= i <= segment.last for segment in after.accepted)
        if not self.smooth:
            return _Seen(called or bool(_doubted(after)[i]), called)
        verdict = judge_found(after).verdict
        return _Seen(verdict != "smooth", called or verdict not in ("smooth", "undetermined"))


def _scatter(anatomy: Anatomy) -> Array:
    """Variance of normal budgets around the trend, shape (n,): as assumed, scaled by what is seen, since the noise
    assumed of single requests, or the roughness allowed to a normal curve, may be more than is there. A budget measured
    again may lie anywhere in it.
    """
    assert anatomy.reading is not None
    trend, summary, normal = anatomy.reading.trend, anatomy.summary, anatomy.normal
    assumed = summary.variance + trend.sd**2
    seen = ((summary.centre - trend.log_latency) ** 2 / assumed)[normal]
    prior = PRIOR_DF if summary.df.any() else _SINGLE_DF
    return np.asarray(assumed * (prior + float(seen.sum())) / (prior + len(seen)))


def _leverage(anatomy: Anatomy) -> Array:
    """Variance of a line through the other normal budgets at each budget, in units of theirs, shape (n,): by how much
    the scatter of the others moves what is expected of it. Large at the ends of a short curve.
    """
    x, normal = np.log(anatomy.curve.budget), anatomy.normal
    leverage = np.empty(len(x))
    for i in range(len(x)):
        others = x[normal & (np.arange(len(x)) != i)]
        apart = others - others.mean()
        leverage[i] = 1 / len(others) + (x[i] - others.mean()) ** 2 / float(apart @ apart)
    return leverage


def _doubted(anatomy: Anatomy) -> Flags:
    """Budgets that something is said of: in a stretch that looks slow, unstable, suspected, or at a doubtful end."""
    doubted = anatomy.unstable.copy()
    doubted[suspected(anatomy)] = True
    stretches = [(segment.first, segment.last) for segment in anatomy.segments]
    if anatomy.doubtful_end is not None:
        stretches.append((anatomy.doubtful_end.first, anatomy.doubtful_end.last))
    for first, last in stretches:
        doubted[first : last + 1] = True
    return doubted


def _outside_regimes(anatomy: Anatomy) -> Flags:
    outside = np.ones(anatomy.curve.n, bool)
    for segment in anatomy.accepted:
        outside[segment.first : segment.last + 1] = False
    return outside


def _with_latency(curve: Curve, i: int, log_s: float, sd: float) -> Curve:
    """The curve with the requests of budget ``i`` around ``log_s``, as many as there are, spread as those of a normal
    distribution with this standard deviation would typically be; a published mean is put there.
    """
    if curve.published is not None:
        mean, sds = curve.published.mean_s.copy(), curve.published.sd_s.copy()
        mean[i] = math.exp(log_s + sd**2 / 2)
        sds[i] = np.nan if math.isnan(sds[i]) else mean[i] * math.sqrt(math.expm1(sd**2))
        return replace(curve, published=replace(curve.published, mean_s=mean, sd_s=sds))
    repeats = list(curve.repeats)
    repeats[i] = tuple(log_s + sd * _typical(len(values)) for values in curve.repeats[i])
    return replace(curve, repeats=tuple(repeats))


def _typical(count: int) -> Array:
    """Normal scores (Blom 1958), shape (count,): sum 0."""
    return np.asarray(ndtri((np.arange(1, count + 1) - 0.375) / (count + 0.25)))
