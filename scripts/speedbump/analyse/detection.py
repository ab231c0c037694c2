"""The smallest slow-down that a series could have shown."""

import math

import numpy as np

from speedbump.analyse.chance import Disturbances, at_least
from speedbump.analyse.confidence import SLOW_SD
from speedbump.analyse.curve import SLOW_FROM, Array
from speedbump.analyse.evidence import CHANCE, CLEARLY
from speedbump.analyse.states import NORMAL_ABOVE, OFF_SHARE, SLOW_UP_TO, transitions
from speedbump.analyse.summary import Summary
from speedbump.analyse.trend import BEND_SD, CORRELATION_LENGTH, Trend

_QUANTILE = 2.5
_LEAST_OF_SOME = 2.2
"""Standard deviations that the least of two to five lies below their centre, nine times in ten at most."""
_LADDER = np.linspace(math.log(SLOW_FROM), math.log(SLOW_UP_TO), 44)
_POWER = 1.3
"""Standard errors between a limit and the slow-down that passes it nine times in ten."""


def detectable_slowdown(log_budget: Array, summary: Summary, trend: Trend, disturbances: Disturbances) -> Array:
    """Slow-down that would have been seen, nine times in ten, had only this budget been slow; shape (n,), n > 1.

    The largest of what the four tests of a lone budget ask for: SLOW_FROM; an interval that clears CLEARLY;
    a likelihood that outweighs entering and leaving the slow state; more than chance disturbances give.
    With two repeats it is seen two times in three: what chance gives is then the limit, and it is not well known.
    Approximate: the expectation's error is that of a trend from the other budgets.
    """
    n = len(log_budget)
    gap = np.diff(log_budget)
    left, right = np.concatenate([[np.inf], gap]), np.concatenate([gap, [np.inf]])
    nearest = np.minimum(left, right)
    apart = 1 / (1 / left + 1 / right)
    kriging = trend.sd**2 * (1 - np.exp(-2 * nearest / CORRELATION_LENGTH))
    of_slow = max(summary.pooled, SLOW_SD**2) / summary.count + summary.unrest**2 / summary.processes
    error = np.sqrt(of_slow + kriging + (trend.sd**2 + summary.pooled) / n + (BEND_SD * apart) ** 2)
    by_interval = math.log(CLEARLY) + (_QUANTILE + _POWER) * error

    chain = transitions(n)
    cost = math.log(math.log(SLOW_UP_TO / SLOW_FROM)) - chain.enter - chain.leave
    needed = max(cost + math.log(OFF_SHARE), 0.5)
    sd = np.sqrt(summary.variance + trend.sd**2)
    by_state = math.log(NORMAL_ABOVE) + (math.sqrt(2 * needed) + _POWER) * sd

    by_chance = np.empty(n)
    for count in np.unique(summary.count):
        m = int(count)
        chance = np.array([n * at_least(m, m, disturbances.rate(by), disturbances.known_by(by)) for by in _LADDER])
        by_chance[summary.count == count] = _LADDER[min(int((chance > CHANCE).sum()), len(_LADDER) - 1)]
    # the least slow of the requests must clear it
    by_chance += _LEAST_OF_SOME * math.sqrt(max(summary.pooled, SLOW_SD**2))
    limits = [by_interval, by_state, by_chance, np.full(n, math.log(SLOW_FROM))]
    return np.asarray(1.05 * np.exp(np.maximum.reduce(limits)))
