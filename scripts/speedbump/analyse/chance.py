"""Whether slow requests, or slow processes, are more than the chance disturbances that every budget has."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaln

from speedbump.analyse.curve import Array, Curve, Flags

CONSENSUS = 0.9
"""Share of a place's requests that must be slow before the place is."""
REQUEST_RATE = 0.05
PROCESS_RATE = 0.05
"""Shares of requests, and of processes, that are expected to be disturbed."""
_PRIOR_COUNT = 20.0
_PRIOR_FROM = 1.5
_PRIOR_TAIL = 1.5


@dataclass(frozen=True)
class Disturbances:
    """How often something of a normal budget is slow by some factor: requests, or whole processes.

    departures: log slow-downs, one array a budget.  learnt_from: budgets that show how often that is.
    singles: those of them that look slow, each on one request; none bears witness against itself.
    prior_rate: share disturbed by 1.5 and more that is expected before any is seen, worth 20 observations;
    beyond, it falls with the factor's power 1.5.

    Counted at those budgets and shrunk towards the prior, so that a clean series of few
    requests is not taken for one that never errs. Taken as independent of each other.
    """

    departures: tuple[Array, ...]
    learnt_from: Flags
    prior_rate: float
    sorted_normal: Array
    singles: Flags | None = None

    def rate(self, log_slowdown: float, without: Array | None = None) -> float:
        """Share slow by at least so much at normal budgets; ``without``: some of them, not counted."""
        seen, total = self._seen(log_slowdown, without)
        return (seen + _PRIOR_COUNT * self.prior(log_slowdown)) / (total + _PRIOR_COUNT)

    def known_by(self, log_slowdown: float, without: Array | None = None) -> float:
        """How many disturbances the rate rests on: those seen, and those of 1.5 and more that were expected, for how
        fast the rate falls beyond is taken for known.
        """
        return self._seen(log_slowdown, without)[0] + _PRIOR_COUNT * self.prior_rate

    def _seen(self, log_slowdown: float, without: Array | None) -> tuple[int, int]:
        total = len(self.sorted_normal)
        seen = total - int(np.searchsorted(self.sorted_normal, log_slowdown))
        if without is not None:
            seen, total = seen - int((without >= log_slowdown).sum()), total - len(without)
        return seen, total

    def prior(self, log_slowdown: float) -> float:
        """The share expected before any is seen."""
        return self.prior_rate * min(1.0, math.exp(-_PRIOR_TAIL * (log_slowdown - math.log(_PRIOR_FROM))))

    def of_segment(self, first: int, last: int) -> float:
        """Probability that disturbances alone make some stretch as long as this one look like it.

        At least CONSENSUS of its departures must be slow. The smallest over k of P(k or more of them slow by
        at least the k-th largest), times the number of such stretches.
        """
        departures = np.sort(np.concatenate(self.departures[first : last + 1]))[::-1]
        m = len(departures)
        if not m:
            return 1.0
        needed = max(math.ceil(CONSENSUS * m), 1)
        own = departures if self.singles is not None and self.singles[first : last + 1].all() else None
        tails = [self._at_least(k, m, float(departures[k - 1]), own) for k in range(needed, m + 1)]
        return min(1.0, (len(self.departures) - (last - first)) * min(tails))

    def of_some(self, i: int, n_slow: int) -> float:
        """Probability that disturbances alone make some budget look like ``i``: its ``n_slow`` slowest so slow,
        its others normal.
        """
        own = np.sort(self.departures[i])[::-1]
        without = own if self.learnt_from[i] else None
        return min(1.0, len(self.departures) * self._at_least(n_slow, len(own), float(own[n_slow - 1]), without))

    def _at_least(self, k: int, m: int, log_slowdown: float, without: Array | None = None) -> float:
        return at_least(k, m, self.rate(log_slowdown, without), self.known_by(log_slowdown, without))


def at_least(k: int, m: int, rate: float, known_by: float) -> float:
    """Probability that ``k`` or more of ``m`` are slow, k from 1, at a rate that so many observed ones tell.

    Beta-binomial. Were the rate taken for known, two slow ones together would look rarer than they are, by up to two.
    """
    j = np.arange(k, m + 1)
    others = known_by * (1 - rate) / rate
    ways = -np.log(m + 1) - betaln(m - j + 1, j + 1)
    return min(1.0, float(np.exp(ways + betaln(known_by + j, others + m - j) - betaln(known_by, others)).sum()))


def disturbed_requests(curve: Curve, expected: Array, normal: Flags) -> Disturbances:
    """Of single requests. Where none finished, the stopped ones count with the bound.

    A burst that hits every request of a process cannot be told from a slow budget by these.
    """
    departures = [
        np.full(curve.n_stopped[i], curve.bound[i] - expected[i])
        if curve.censored[i]
        else curve.pooled(i) - expected[i]
        for i in range(curve.n)
    ]
    singles = _odd_singles(departures, normal)
    return replace(learn(departures, normal | singles, REQUEST_RATE), singles=singles)


def _odd_singles(departures: list[Array], normal: Flags) -> Flags:
    """Budgets that look slow by themselves, on one request: they show how often a request is disturbed."""
    padded = np.concatenate([[True], normal, [True]])
    single = np.array([len(own) == 1 for own in departures])
    return np.asarray(single & ~normal & padded[:-2] & padded[2:])


def disturbed_processes(curve: Curve, expected: Array, normal: Flags) -> Disturbances:
    """Of whole processes, by the median of each: cold starts, bursts of load."""
    departures = [
        np.array([float(np.median(values)) - expected[i] for values in curve.repeats[i]]) for i in range(curve.n)
    ]
    return learn(departures, normal, PROCESS_RATE)


def learn(departures: list[Array], normal: Flags, prior_rate: float) -> Disturbances:
    """What the departures at such budgets say of disturbances; one array of log slow-downs a budget."""
    of_normal = [departures[i] for i in np.flatnonzero(normal)]
    known = np.sort(np.concatenate(of_normal)) if of_normal else np.empty(0)
    return Disturbances(tuple(departures), normal, prior_rate, known)
