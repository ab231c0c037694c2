"""The state of every budget, normal or slow: a two-state chain along the budgets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Flags
from speedbump.analyse.summary import Summary
from speedbump.analyse.trend import Trend, fit_normal_trend, powers_of

SLOW_UP_TO = 100.0
NORMAL_ABOVE = 1.25
NORMAL_BELOW = 1.15
"""How far normal budgets may leave the trend, up and down: pages, tiles, padding."""
OFF_SHARE = 0.05
"""Share of normal budgets that do."""
_FAST_OUTLIER = math.exp(-20)
LEVEL_SD = 0.15
_LEVEL_STAYS = 0.8
EXIT = 0.3
_FIRST_GUESS_SD = 0.25
_MOST_ITERATIONS = 12
_FLOOR = -600.0
_ROOT_TWO_PI = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Emissions:
    """Log density of each budget under each state, shape (n,); ``slow_again``: slow, after a slow budget."""

    normal: Array
    slow: Array
    slow_again: Array


@dataclass(frozen=True)
class Transitions:
    """Log probabilities of entering and leaving the slow state, and of staying outside and inside."""

    enter: float
    stay_normal: float
    leave: float
    stay_slow: float


@dataclass(frozen=True)
class Reading:
    """One consistent reading of a curve: these budgets are slow, and the others make this trend.

    slow: flags, shape (n,).  score: log probability of the labels and the data together.
    """

    slow: Flags
    trend: Trend
    score: float

    def normal(self, curve: Curve) -> Flags:
        """The budgets that the trend rests on."""
        return ~self.slow & ~curve.censored


def transitions(n: int) -> Transitions:
    """Half a regime expected per curve of six budgets and more; a regime lasts 1 / EXIT budgets."""
    enter = 0.5 / max(n, 6)
    return Transitions(math.log(enter), math.log1p(-enter), math.log(EXIT), math.log1p(-EXIT))


def emissions(departure: Array, sd: Array, censored: Flags) -> Emissions:
    """How likely each budget's departure from the trend is in each state.

    departure: log latency over trend.  sd: of it, for a normal budget.  Both of shape (n,).
    Normal: mostly N(0, sd), sometimes uniform between NORMAL_BELOW and NORMAL_ABOVE blurred by sd. Slow:
    uniform in logs between SLOW_FROM and SLOW_UP_TO, blurred; after a slow budget most of it is N(that
    budget's departure, LEVEL_SD), since a level tends to stay. A censored budget gives the probability that
    it takes at least so long; below SLOW_FROM it says nothing.
    """
    above, below = math.log(NORMAL_ABOVE), math.log(NORMAL_BELOW)
    low, high = math.log(SLOW_FROM), math.log(SLOW_UP_TO)
    core = (1 - OFF_SHARE) * np.exp(-0.5 * (departure / sd) ** 2) / (sd * _ROOT_TWO_PI)
    off = OFF_SHARE * (ndtr((departure + below) / sd) - ndtr((departure - above) / sd)) / (above + below)
    fast = _FAST_OUTLIER * ndtr((-below - departure) / sd)
    normal = np.log(core + off + fast + 1e-300)
    gate = log_ndtr((departure - low) / sd) + log_ndtr((high - departure) / sd)
    slow = np.maximum(gate - math.log(high - low), _FLOOR)
    variance = LEVEL_SD**2 + sd[1:] ** 2 + sd[:-1] ** 2
    level = np.exp(-0.5 * np.diff(departure) ** 2 / variance) / (np.sqrt(variance) * _ROOT_TWO_PI)
    again = np.maximum(gate[1:] + np.log(_LEVEL_STAYS * level + (1 - _LEVEL_STAYS) / (high - low)), _FLOOR)
    slow_again = np.concatenate([[0.0], again])
    if censored.any():
        bound, sd = departure[censored], sd[censored]
        tells = bound >= low
        beyond = (1 - OFF_SHARE) * ndtr(-bound / sd) + OFF_SHARE * ndtr((above - bound) / sd)
        normal[censored] = np.where(tells, np.log(beyond + 1e-300), 0.0)
        share = np.clip((high - bound) / (high - low), 1e-3, 1.0)
        slow[censored] = np.where(tells, np.log(share), 0.0)
        slow_again[censored] = slow[censored]
        # after a bound nothing is known of the level
        after = np.flatnonzero(censored[:-1] & ~censored[1:]) + 1
        slow_again[after] = slow[after]
    return Emissions(normal, slow, slow_again)


def most_likely_path(e: Emissions, t: Transitions) -> tuple[Flags, float]:
    """The likeliest states (True: slow) and their log probability (Viterbi 1967)."""
    normal, slow = float(e.normal[0]) + t.stay_normal, float(e.slow[0]) + t.enter
    came_from_slow: list[tuple[bool, bool]] = []
    rows = zip(e.normal[1:].tolist(), e.slow[1:].tolist(), e.slow_again[1:].tolist(), strict=True)
    for in_normal, in_slow, in_slow_again in rows:
        stayed, left = normal + t.stay_normal, slow + t.leave
        entered, remained = normal + t.enter + in_slow, slow + t.stay_slow + in_slow_again
        came_from_slow.append((left > stayed, remained > entered))
        normal, slow = max(stayed, left) + in_normal, max(entered, remained)
    state = slow > normal
    path = [state]
    for to_normal, to_slow in reversed(came_from_slow):
        state = to_slow if state else to_normal
        path.append(state)
    return np.array(path[::-1], bool), max(slow, normal)


def log_probability(slow: Flags, e: Emissions, t: Transitions) -> float:
    """Log probability of these states and the data together."""
    again = np.concatenate([[False], slow[:-1]])
    moves = np.where(slow, np.where(again, t.stay_slow, t.enter), np.where(again, t.leave, t.stay_normal))
    data = np.where(slow, np.where(again, e.slow_again, e.slow), e.normal)
    return float((moves + data).sum())


def probability_slow(e: Emissions, t: Transitions) -> Array:
    """Posterior probability of the slow state at every budget (forward and backward passes)."""
    normal, slow, again = e.normal.tolist(), e.slow.tolist(), e.slow_again.tolist()
    n = len(normal)
    forward = [(normal[0] + t.stay_normal, slow[0] + t.enter)]
    for i in range(1, n):
        a, b = forward[-1]
        forward.append(
            (
                _log_add(a + t.stay_normal, b + t.leave) + normal[i],
                _log_add(a + t.enter + slow[i], b + t.stay_slow + again[i]),
            )
        )
    a, b = 0.0, 0.0
    log_odds = np.empty(n)
    for i in range(n - 1, -1, -1):
        log_odds[i] = forward[i][1] + b - forward[i][0] - a
        a, b = (
            _log_add(t.stay_normal + normal[i] + a, t.enter + slow[i] + b),
            _log_add(t.leave + normal[i] + a, t.stay_slow + again[i] + b),
        )
    return np.asarray(expit(log_odds))


def _log_add(a: float, b: float) -> float:
    high, low = (a, b) if a > b else (b, a)
    return high + math.log1p(math.exp(low - high))


def find_states(
    curve: Curve, summary: Summary, terms: Array | None = None, starts: Sequence[Array | None] | None = None
) -> Reading | None:
    """The likeliest reading of a curve; None when no reading has two normal budgets.

    Labels and trend are found in turn until neither changes, from several starts, for the trend of a wrong
    labelling can be its own justification: lines of log-log slope 1 (KV cache) and 1.9 (none) through low
    quantiles of per-token latency and through both ends, all budgets normal, and a Theil-Sen line. The best
    score wins.

    terms: of the trend, shape (n, any); left out: powers_of(budget).  starts: trends to start from instead of
    these, log seconds, None for all budgets normal.
    """
    x, n = np.log(curve.budget), curve.n
    chain = transitions(n)
    if terms is None:
        terms = powers_of(curve.budget)
    seen: set[bytes] = set()
    readings: list[Reading] = []
    for guess in _starts(x, summary.centre, curve.censored) if starts is None else starts:
        slow = np.zeros(n, bool)
        if guess is not None:
            sd = np.sqrt(summary.variance + _FIRST_GUESS_SD**2)
            slow, _ = most_likely_path(emissions(summary.centre - guess, sd, curve.censored), chain)
        for _ in range(_MOST_ITERATIONS):
            normal = ~slow & ~curve.censored
            if normal.sum() < 2 or slow.tobytes() in seen:
                break
            seen.add(slow.tobytes())
            trend = fit_normal_trend(x, terms, summary, normal)
            sd = np.sqrt(summary.variance + trend.sd**2)
            slow, score = most_likely_path(emissions(summary.centre - trend.log_latency, sd, curve.censored), chain)
            readings.append(Reading(slow, trend, score))
    if not readings:
        return None
    best = max(readings, key=lambda reading: reading.score)
    if best.normal(curve).sum() < 2:
        return None
    return best


def _starts(x: Array, centre: Array, censored: Flags) -> list[Array | None]:
    known = np.flatnonzero(~censored)
    if not len(known):
        return []
    by_token = known[np.argsort((centre - x)[known], kind="stable")]
    quantiles = [by_token[round(share * (len(known) - 1))] for share in (0, 0.15, 0.35, 0.6)]
    anchors = sorted({int(i) for i in (*quantiles, known[0], known[-1])})
    starts: list[Array | None] = [centre[i] + slope * (x - x[i]) for i in anchors for slope in (1.0, 1.9)]
    starts.append(None)
    first, second = np.triu_indices(len(known), 1)
    if len(first):
        xs, zs = x[known], centre[known]
        slope = float(np.median((zs[second] - zs[first]) / (xs[second] - xs[first])))
        if 0 <= slope <= 3:
            starts.append(np.median(zs - slope * xs) + slope * x)
    return starts
