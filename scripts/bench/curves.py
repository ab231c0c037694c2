"""Simulated series: normal trends of many shapes, regimes placed in them, noise of many kinds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bench.load import FixedWork, Load, run_beside
from speedbump.analyse.curve import Array, Curve, Flags, Indices, from_repeats
from speedbump.analyse.steps import LEAST_SIDE, REACH

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

QUIET, UNTOLD = frozenset({"smooth"}), frozenset({"undetermined"})
REGIMES, STEP, RATE = frozenset({"slow regimes", "excess"}), frozenset({"step"}), frozenset({"rate change"})
"""Verdicts that say the same of a curve."""


def lengths_of(grid: str, n: int) -> Array:
    """The ``n`` lengths of a series: of GRIDS, in even steps, each so many times the one before, or in uneven steps."""
    if grid == "first":
        return GRIDS[n]
    if grid == "even":
        return 4096.0 * np.arange(1, n + 1)
    if grid == "uneven":
        return np.cumsum(np.resize([64.0, 16, 128, 48, 256, 32], n))
    return np.unique(np.round(16 * float(grid.removeprefix("x")) ** np.arange(n)))


@dataclass(frozen=True)
class Scenario:
    """How to draw one series.

    n: lengths.  grid: how they are spaced, see lengths_of.  repeats: of each.  trend: a key of TRENDS, or ``mix``.
    sigma: sd of log repeats; noise_grows: times that at the largest budget.  roughness: sd of normal budgets around
    the trend.  outliers: share of repeats disturbed, by 1.5 to 4.
    bumps: (slow-down, width in budgets, place), place ``mid``, ``left``, ``right`` or ``edge``.
    levels: (first, second slow-down, width of each).  step: slow-down from some middle budget on, for good.
    stays: the same where what stays is no regime but a step, up or, below 1, down.
    fast: one length is too fast by so many times.  rate: from some middle length on each further token costs so many
    times as much.  period, alternating: every so many lengths, half of them take so many times as long.
    stopped: so many of the largest lengths are stopped before a normal request would end, by ``stopped_by``.
    load: see Load.
    confirm: judged once what is doubtful was measured again.  table: judged from a table of requests.
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
    grid: str = "first"
    stays: float = 1.0
    fast: float = 1.0
    rate: float = 1.0
    period: int = 0
    alternating: float = 1.0
    stopped: int = 0
    stopped_by: str = "limit"
    load: Load | None = None
    table: bool = False

    @property
    def lengths(self) -> Array:
        return lengths_of(self.grid, self.n)

    @property
    def right(self) -> frozenset[str]:
        """The verdicts that say what there is; under a load that came or went also that nothing can be told."""
        has_regimes = bool(self.bumps or self.levels or self.step)
        quiet = REGIMES if has_regimes else QUIET
        if self.load is not None:
            return UNTOLD if self.load.when == "throughout" else UNTOLD | quiet
        if self.stopped or self.period:
            return UNTOLD
        if self.stays != 1:
            return STEP
        if self.rate != 1:
            return RATE
        return quiet | UNTOLD if self.fast != 1 and not has_regimes else quiet


@dataclass(frozen=True)
class Truth:
    """Regimes as (first, last) indices with their slow-downs, and the true log latency of every budget.

    step: the first index of a level that stays.  bends: the rate does change at some length.
    """

    regimes: list[tuple[int, int]]
    slowdowns: list[float]
    log_latency: Array
    slow: Flags
    unstable: int | None = None
    step: int | None = None
    bends: bool = False


@dataclass(frozen=True)
class Simulated:
    """A drawn series: its curve, the truth, and how to measure a budget once more (log seconds).

    limits, raw: where requests are stopped, the log seconds at which, and what they would have taken.
    fixed: what the fixed workload took around each cell, and which cells are flagged.
    """

    curve: Curve
    truth: Truth
    again: Callable[[int, int, np.random.Generator], Array] = field(repr=False)
    limits: Array | None = None
    raw: list[Array] | None = None
    fixed: FixedWork | None = None


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


def _context(b: Array, rng: np.random.Generator) -> Array:
    """A fixed answer behind a growing context: hardly any growth up to two and a half times."""
    return np.asarray(1 + rng.uniform(0, 1.5) * b)


def _slight_kink(b: Array, rng: np.random.Generator) -> Array:
    """The slope up by up to 1.3 at a knee."""
    knee = rng.uniform(0.3, 0.8)
    return np.asarray(rng.uniform(0, 0.25) + b + rng.uniform(0.1, 0.3) * np.maximum(b - knee, 0))


def _tile_pairs(b: Array, rng: np.random.Generator) -> Array:
    """Every second pair of lengths fills its tiles worse, by up to 1.25."""
    odd = (np.arange(len(b)) + rng.integers(4)) // rng.choice([1, 2]) % 2
    return np.asarray((0.1 + b) * (1 + rng.uniform(0.1, 0.25) * odd))


def _attention(b: Array, rng: np.random.Generator) -> Array:
    """A start-up cost, a cost a token and one a pair of tokens, in any proportion."""
    return np.asarray(rng.dirichlet([1, 2, 1]) @ np.stack([np.ones_like(b), b, b**2]))


def _logarithmic(b: Array, rng: np.random.Generator) -> Array:
    return np.asarray(1 + rng.uniform(0.2, 1) * np.log1p(rng.uniform(1, 30) * b))


def _n_log_n(b: Array, rng: np.random.Generator) -> Array:
    return np.asarray(rng.uniform(0, 0.1) + b * np.log2(1 + rng.uniform(2, 1000) * b))


def _saturating(b: Array, rng: np.random.Generator) -> Array:
    """A device that fills up: fast growth at first, proportion later."""
    return np.asarray(b + rng.uniform(0.2, 1) * b / (b + rng.uniform(0.05, 0.5)))


def _wave(b: Array, rng: np.random.Generator) -> Array:
    """Half a wave to two of up to 8 % around a line."""
    return np.asarray(
        (0.1 + b) * (1 + rng.uniform(0.02, 0.08) * np.sin(np.pi * rng.uniform(1, 4) * b + rng.uniform(0, 6)))
    )


def _two_kinks(b: Array, rng: np.random.Generator) -> Array:
    """The slope up by up to 1.3 at one knee, and back at another."""
    first, second = np.sort(rng.uniform(0.2, 0.9, 2))
    return np.asarray(0.1 + b + rng.uniform(0.1, 0.3) * (np.maximum(b - first, 0) - np.maximum(b - second, 0)))


def _bumpy(b: Array, rng: np.random.Generator) -> Array:
    """Increments that differ at random, by a third."""
    share = rng.gamma(9, 1 / 9, len(b))
    return np.asarray(rng.uniform(0, 0.3) + np.cumsum(np.diff(b, prepend=0) * share))


TRENDS: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "affine": _affine,
    "quad": _quadratic,
    "power": _power,
    "kink": _kink,
    "tile": _tiles,
    "saw": _sawtooth,
    "plateau": _pages,
    "flat": _flat,
    "context": _context,
    "kink1.3": _slight_kink,
    "tile1.25": _tile_pairs,
    "attention": _attention,
    "logarithmic": _logarithmic,
    "nlogn": _n_log_n,
    "saturating": _saturating,
    "wave": _wave,
    "two-kinks": _two_kinks,
    "bumpy": _bumpy,
}
FRESH = ("attention", "logarithmic", "nlogn", "saturating", "wave", "two-kinks", "bumpy")
"""Smooth kinds that came after the method; nothing was chosen on them."""
MIX = ("affine", "quad", "power", "kink")


def simulate(scenario: Scenario, rng: np.random.Generator, noise_of: np.random.Generator | None = None) -> Simulated:
    """Draw one series: its truth from ``rng``, and what is measured of it from ``noise_of`` if given."""
    s, budget = scenario, scenario.lengths
    trend = MIX[rng.integers(len(MIX))] if s.trend == "mix" else s.trend
    share = budget / (LARGEST if s.grid == "first" else budget[-1])
    latency = TRENDS[trend](share, rng)
    if s.rate != 1:
        latency = _change_rate(latency, share, s.rate, rng)
    base = np.log(10 * latency) + np.log(s.all_slow)
    roughness = 0.02 + 0.3 * s.sigma if s.roughness is None else s.roughness
    off = rng.normal(0, roughness, s.n)
    slow_by, regimes = _place_regimes(s, rng)
    slow = slow_by > 0
    off = np.where(slow, rng.normal(0, 0.08, s.n), off)
    truth_slowdowns = [float(np.exp((slow_by + off)[a : b + 1].mean())) for a, b in regimes]
    shape, step = _reshape(s, slow, rng)
    base = base + shape
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
    fixed = None
    if s.load is not None:
        slowed, fixed = run_beside(s.load, s.n, rng)
        logs = [values + by for values, by in zip(logs, slowed(s.repeats), strict=True)]
    seconds = [np.exp(values) for values in logs]
    if s.ticks:
        seconds = [np.maximum(np.round(values / s.ticks), 1) * s.ticks for values in seconds]
    curve = from_repeats(budget, seconds)
    truth = Truth(regimes, truth_slowdowns, log_latency, slow, unstable, step, s.rate != 1 or trend == "kink")
    if s.stopped:
        curve = _stop_early(curve, s.stopped, log_latency, rng)
    if s.cut_at is None:
        return Simulated(curve, truth, measure, fixed=fixed)
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


def _change_rate(latency: Array, share: Array, rate: float, rng: np.random.Generator) -> Array:
    """From some length of the middle third on, each further token costs ``rate`` times as much."""
    n = len(share)
    knee = int(rng.integers(n // 3, 2 * n // 3 + 1))
    beyond = latency[knee] + rate * (latency - latency[knee])
    return np.where(share > share[knee], beyond, latency)


def _places_of_steps(s: Scenario) -> Indices:
    """First indices of levels that can be known to stay: in the middle third, with so many lengths and such a reach on
    either side as the README asks for. With less a level may as well be a regime that has not ended.
    """
    at, lengths = np.arange(s.n // 3, 2 * s.n // 3 + 1), s.lengths
    enough = (at >= LEAST_SIDE) & (s.n - at >= LEAST_SIDE)
    return at[enough & (lengths[at - 1] >= REACH * lengths[0]) & (lengths[-1] >= REACH * lengths[at])]


def _reshape(s: Scenario, slow: Flags, rng: np.random.Generator) -> tuple[Array, int | None]:
    """What to add to the log latencies for a level that stays, lengths that alternate, one too fast; the level's first
    index.
    """
    shape, at, step = np.zeros(s.n), np.arange(s.n), None
    if s.stays != 1:
        step = int(rng.choice(_places_of_steps(s)))
        shape += np.log(s.stays) * (at >= step)
    if s.period:
        shape += np.log(s.alternating) * ((at + rng.integers(s.period)) % s.period < s.period / 2)
    if s.fast != 1:
        shape[rng.choice(np.flatnonzero(~slow))] -= np.log(s.fast)
    return shape, step


def _stop_early(curve: Curve, n_lengths: int, log_latency: Array, rng: np.random.Generator) -> Curve:
    """The curve with the first request of each of its largest lengths stopped long before it could end."""
    repeats, bound, n_stopped, stops = (
        list(curve.repeats),
        curve.bound.copy(),
        curve.n_stopped.copy(),
        list(curve.stops),
    )
    for i in range(curve.n - n_lengths, curve.n):
        bound[i] = log_latency[i] + np.log(rng.uniform(0.1, 0.95))
        repeats[i], n_stopped[i], stops[i] = (), 1, bound[i : i + 1]
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
