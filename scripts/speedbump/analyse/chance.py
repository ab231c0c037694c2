"""Whether slow requests are more than the chance disturbances that every budget has."""

import math

import numpy as np
from scipy.special import bdtrc

from speedbump.analyse.curve import Array, Curve, Flags

PRIOR_RATE = 0.03
"""Share of disturbed requests expected before any is seen ..."""
PRIOR_REQUESTS = 20.0
"""... worth so many requests ..."""
PRIOR_FROM = 1.2
"""... slow by at least this factor; beyond it the share falls with the factor's square."""
CONSENSUS = 0.8
"""Share of a budget's requests that must be slow before the budget is."""


class Disturbances:
    """How often a request of a normal budget is slow by some factor, learnt from the series itself.

    Disturbed requests are counted at the normal budgets and shrunk towards a prior, so that a clean series
    of few requests is not taken for one that never errs. Requests are taken as independent: a burst that hits
    every request of a budget cannot be told from a slow budget within one process.
    """

    def __init__(self, curve: Curve, expected: Array, normal: Flags) -> None:
        self._departures: list[Array] = [curve.pooled(i) - expected[i] for i in range(curve.n)]
        of_normal = [self._departures[i] for i in np.flatnonzero(normal)]
        self._sorted = np.sort(np.concatenate(of_normal)) if of_normal else np.empty(0)
        self._normal = normal
        self._n = curve.n

    def departures(self, i: int) -> Array:
        """Log slow-down of every request of budget ``i``."""
        return self._departures[i]

    def rate(self, log_slowdown: float, without: Array | None = None) -> float:
        """Share of normal requests slow by at least so much; those of ``without`` are not counted."""
        seen, total = len(self._sorted) - int(np.searchsorted(self._sorted, log_slowdown)), len(self._sorted)
        if without is not None:
            seen, total = seen - int((without >= log_slowdown).sum()), total - len(without)
        prior = PRIOR_RATE * min(1.0, math.exp(-2 * (log_slowdown - math.log(PRIOR_FROM))))
        return (seen + PRIOR_REQUESTS * prior) / (total + PRIOR_REQUESTS)

    def chance(self, departures: Array, at_least: int, places: int, without: Array | None = None) -> float:
        """Probability that disturbances alone make some place of the series look like this one.

        departures: log slow-downs of the place's requests.  at_least: how many must be slow.  places: how
        many such places the series has.
        The smallest over k of P(k or more of the requests slow by at least the k-th largest), binomial.
        """
        ordered = np.sort(departures)[::-1]
        m = len(ordered)
        tails = [bdtrc(k - 1, m, self.rate(float(ordered[k - 1]), without)) for k in range(at_least, m + 1)]
        return min(1.0, places * float(min(tails))) if tails else 1.0

    def of_segment(self, first: int, last: int) -> float:
        """The chance of the slow budgets ``first`` to ``last``."""
        departures = np.concatenate([self._departures[i] for i in range(first, last + 1)])
        needed = max(math.ceil(CONSENSUS * len(departures)), 1)
        return self.chance(departures, needed, self._n - (last - first))

    def of_budget(self, i: int, n_slow: int) -> float:
        """The chance of the ``n_slow`` slowest requests of budget ``i``, the others being normal."""
        own = self._departures[i]
        ordered = np.sort(own)[::-1]
        rate = self.rate(float(ordered[n_slow - 1]), own if self._normal[i] else None)
        return min(1.0, self._n * float(bdtrc(n_slow - 1, len(own), rate)))
