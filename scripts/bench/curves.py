"""Simulated series: normal trends of many shapes, regimes placed in them, noise of many kinds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from speedbump.analyse.curve import Array, Curve, Flags, from_repeats

GRIDS: dict[int, Array] = {
    3: np.array([128.0, 384, 768]),
    4: np.array([128.0, 256, 512, 768]),
    5: np.array([128.0, 256, 384, 512, 768]),
    6: np.arange(128, 769, 128.0),
    12: np.arange(480, 657, 16.0),
    21: np.arange(128, 769, 32.0),
    40: np.arange(144, 769, 16.0),
    600: np.arange(128.0, 728),
}
"""Budgets of a series, by their number."""

LARGEST = 768.0


@dataclass(frozen=True)
class Scenario:
    """How to draw one series.

    n: budgets, a key of GRIDS.  repeats: of each.  trend: a key of TRENDS, or ``mix``.  sigma: sd of log
    repeats; noise_grows: times that at the largest budget.  roughness: sd of normal budgets around the trend.
    outliers: share of repeats disturbed, by 1.5 to 4.
    bumps: (slow-down, width in budgets, place), place ``mid``, ``left``, ``right`` or ``edge``.
    levels: (first, second slow-down, width of each).  step: slow-down from some middle budget on, for good.
    drift: how much slower the last cell run is than the first, cells being run in random order.
    process_sd, cold_share, cold_factor: log sd of whole processes, share of them that start cold, and how
    much slower those are.  disturbed_cells: cells whose every request is disturbed.  bimodal: share of slow
    requests at one budget, slow by bimodal_factor.  cut_at: requests are stopped at so many times the trend.
    all_slow: every budget is slow by so much.  ticks: clock resolution in seconds.
    """

    n: int
    repeats: int = 5
    trend: str = "mix"
    sigma: float = 0.05
    noise_grows: float = 1.0
    roughness: float | None = None
    outliers: float = 0.03
    bumps: tuple[tuple[float, int, str], ...] = ()
    levels: tuple[float, float, int] | None = None
    step: float | None = None
    drift: float = 0.0
    process_sd: float = 0.0
    cold_share: float = 0.0
    cold_factor: float = 1.3
    disturbed_cells: int = 0
    bimodal: float = 0.0
    bimodal_factor: float = 5.0
    cut_at: float | None = None
    all_slow: float = 1.0
    ticks: float = 0.0
    confirm: bool = False


@dataclass(frozen=True)
class Truth:
    """Regimes as (first, last) indices with their slow-downs, and the true log latency of every budget."""

    regimes: list[tuple[int, int]]
    slowdowns: list[float]
    log_latency: Array
    slow: Flags
    unstable: int | None = None


@dataclass(frozen=True)
class Simulated:
    """A drawn series: its curve, the truth, and how to measure a budget once more (log seconds).

    limits, raw: where requests are stopped, the log seconds at which, and what they would have taken.
    """

    curve: Curve
    truth: Truth
    again: Callable[[int, int, np.random.Generator], Array] = field(repr=False)
    limits: Array | None = None
    raw: list[Array] | None = None


def _affine(b: Array, rng: np.random.Generator) -> Array:
    share = rng.uniform(0, 0.25)
    return share + (1 - share) * b


def _quadratic(b: Array, rng: np.random.Generator) -> Array:
    share = rng.uniform(0.4, 1)
    return 0.02 + (1 - share) * b + share * b**2


def _power(b: Array, rng: np.random.Generator) -> Array:
    return np.asarray(b ** rng.uniform(0.6, 1.6))


def _kink(b: Array, rng: np.random.Generator) -> Array:
    """The slope up to doubles and more at a knee."""
    knee = rng.uniform(0.3, 0.8)
    return b + rng.uniform(0.5, 1.5) * np.maximum(b - knee, 0)


def _tiles(b: Array, rng: np.random.Generator) -> Array:
    """Permanent steps of 5 to 20 % at up to three places."""
    latency, budget = b.copy(), b * LARGEST
    for _ in range(rng.integers(1, 4)):
        latency = latency * np.where(budget >= rng.uniform(budget[0], budget[-1]), 1 + rng.uniform(0.05, 0.20), 1)
    return latency


def _sawtooth(b: Array, rng: np.random.Generator) -> Array:
    """Padded tiles: 5 to 20 %, period 64 to 256 tokens."""
    period = rng.choice([64, 128, 192, 256])
    return np.asarray(b * (1 + rng.uniform(0.05, 0.20) * (1 - (b * LARGEST % period) / period)))


def _pages(b: Array, rng: np.random.Generator) -> Array:
    """Latency flat inside a page of 32 or 64 tokens, up at its border."""
    page = rng.choice([32, 64])
    return np.asarray(np.ceil(b * LARGEST / page) * page / LARGEST)


def _flat(b: Array, rng: np.random.Generator) -> Array:
    """All budgets take the same: time is spent elsewhere."""
    return np.ones_like(b)


TRENDS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "affine": _affine,
    "quad": _quadratic,
    "power": _power,
    "kink": _kink,
    "tile": _tiles,
    "saw": _sawtooth,
    "plateau": _pages,
    "flat": _flat,
}
MIX = ("affine", "quad", "power", "kink")


def simulate(scenario: Scenario, rng: np.random.Generator, noise_of: np.random.Generator | None = None) -> Simulated:
    """Draw one series: its truth from ``rng``, and what is measured of it from ``noise_of`` if given."""
    s, budget = scenario, GRIDS[scenario.n]
    trend = MIX[rng.integers(len(MIX))] if s.trend == "mix" else s.trend
    base = np.log(10 * TRENDS[trend](budget / LARGEST, rng)) + np.log(s.all_slow)
    roughness = 0.02 + 0.3 * s.sigma if s.roughness is None else s.roughness
    off = rng.normal(0, roughness, s.n)
    slow_by, regimes = _place_regimes(s, rng)
    slow = slow_by > 0
    off = np.where(slow, rng.normal(0, 0.08, s.n), off)
    truth_slowdowns = [float(np.exp((slow_by + off)[a : b + 1].mean())) for a, b in regimes]
    log_latency = base + off + slow_by
    noise = np.geomspace(1, s.noise_grows, s.n) * s.sigma

    rng = rng if noise_of is None else noise_of

    def measure(i: int, n: int, rng: np.random.Generator) -> Array:
        spread = max(noise[i], 0.12) if slow[i] else noise[i]
        logs = rng.standard_t(6, n) / np.sqrt(1.5) * spread
        hit = rng.random(n) < s.outliers
        return np.asarray(log_latency[i] + (logs + hit * np.log(rng.uniform(1.5, 4, n))))

    logs = [measure(i, s.repeats, rng) for i in range(s.n)]
    unstable = None
    if s.drift:
        position = rng.permutation(s.n) / max(s.n - 1, 1)
        logs = [values + np.log1p(s.drift) * p for values, p in zip(logs, position, strict=True)]
    if s.process_sd or s.cold_share:
        offsets = rng.normal(0, s.process_sd, s.n) + (rng.random(s.n) < s.cold_share) * np.log(s.cold_factor)
        logs = [values + o for values, o in zip(logs, offsets, strict=True)]
    for i in rng.choice(s.n, s.disturbed_cells, replace=False):
        logs[i] = logs[i] + np.log(rng.uniform(1.5, 4))
    if s.bimodal:
        unstable = int(rng.integers(1, s.n - 1))
        # both states occur, or nobody could tell that there are two
        n_slow = int(np.clip(rng.binomial(s.repeats, s.bimodal), 1, s.repeats - 1))
        logs[unstable] = logs[unstable] + np.log(s.bimodal_factor) * (np.arange(s.repeats) < n_slow)
    seconds = [np.exp(values) for values in logs]
    if s.ticks:
        seconds = [np.maximum(np.round(values / s.ticks), 1) * s.ticks for values in seconds]
    curve = from_repeats(budget, seconds)
    truth = Truth(regimes, truth_slowdowns, log_latency, slow, unstable)
    if s.cut_at is None:
        return Simulated(curve, truth, measure)
    limits = base + np.log(s.cut_at)
    return Simulated(_cut(curve, limits), truth, measure, limits, logs)


def _cut(curve: Curve, limit: Array) -> Curve:
    """The curve with every request stopped at the limit (log seconds a budget); one stopped ends its cell."""
    repeats, bound, n_stopped = list(curve.repeats), curve.bound.copy(), curve.n_stopped.copy()
    stops = list(curve.stops)
    for i in range(curve.n):
        values = curve.pooled(i)
        late = np.flatnonzero(values > limit[i])
        if len(late):
            finished = values[: late[0]]
            repeats[i] = (np.append(finished, limit[i]),) if len(finished) else ()
            if not len(finished):
                bound[i], n_stopped[i], stops[i] = limit[i], 1, limit[i : i + 1]
    return Curve(curve.budget, tuple(repeats), bound, n_stopped, tuple(stops), curve.disturbed)


def _place_regimes(s: Scenario, rng: np.random.Generator) -> tuple[Array, list[tuple[int, int]]]:
    slow_by, regimes = np.zeros(s.n), []
    for factor, width, place in s.bumps:
        end = ("left" if rng.random() < 0.5 else "right") if place == "edge" else place
        for _ in range(50):
            first, last = _place(s.n, width, end, rng)
            if (slow_by[max(first - 2, 0) : last + 3] == 0).all():
                break
        slow_by[first : last + 1] = np.log(factor)
        regimes.append((first, last))
    if s.levels is not None:
        low, high, width = s.levels
        first = int(rng.integers(2, s.n - 2 * width - 2))
        slow_by[first : first + width] = np.log(low)
        slow_by[first + width : first + 2 * width] = np.log(high)
        regimes.append((first, first + 2 * width - 1))
    if s.step is not None:
        first = int(rng.integers(s.n // 3, 2 * s.n // 3 + 1))
        slow_by[first:] = np.log(s.step)
        regimes.append((first, s.n - 1))
    return slow_by, regimes


def _place(n: int, width: int, where: str, rng: np.random.Generator) -> tuple[int, int]:
    if where == "mid":
        first = int(rng.integers(2, n - width - 1)) if n - width - 3 > 0 else max(1, (n - width) // 2)
    elif where == "left":
        first = 0
    else:
        first = n - width
    return first, first + width - 1
