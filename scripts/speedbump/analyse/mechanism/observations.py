"""What can be seen of a reference curve and its arms that tells the hypotheses apart."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import numpy as np
import polars as pl

from speedbump.analyse.claims.evidence import memory_gb
from speedbump.analyse.confidence import Interval, student_quantile
from speedbump.analyse.curve import Array
from speedbump.analyse.mechanism.arms import Arm, Curve, Reference, Regime
from speedbump.analyse.mechanism.effects import Effect, effect_of, largest, mean_interval, share, slow_downs
from speedbump.analyse.mechanism.growth import fit_growth
from speedbump.analyse.step_times import find_slow_steps
from speedbump.grid.axes import REST
from speedbump.grid.models import BYTES_PER_VALUE

GIB = 2**30
RESOLVED = 0.85 * 2
"""By the pool's formula need grows with the square of the length, and is 0.85 of the memory at the onset: a ballast
can only be seen where it is more than this share of the memory times the relative width of the onset's bracket."""


@dataclass(frozen=True)
class Observation:
    """One observed number with its 95 % interval. ``value`` None: not seen, and ``words`` says what would show it.

    arm: what it was seen in.  n: how many lengths, cells or requests it rests on.
    """

    value: float | None
    words: str
    low: float = math.nan
    high: float = math.nan
    arm: str = "reference"
    n: int = 0


def _unseen(words: str) -> Observation:
    return Observation(None, words)


def _seen(interval: Interval, words: str, arm: str = "reference", n: int = 1) -> Observation:
    return Observation(interval.value, words, interval.low, interval.high, arm, n)


def _exactly(value: float, words: str, arm: str = "reference", n: int = 1) -> Observation:
    return Observation(value, words, value, value, arm, n)


@dataclass(frozen=True)
class Sight:
    """A reference with all that was recorded of it and its arms.

    requests, samples: tables.REQUESTS and tables.MEMORY_SAMPLES of the reference's and the arms' series.
    """

    reference: Reference
    requests: pl.DataFrame
    samples: pl.DataFrame

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """Every arm's effect, by series."""
        return {arm.curve.series: effect_of(arm.curve, self.reference.curve, arm.priced) for arm in self.reference.arms}

    @cached_property
    def slow(self) -> dict[int, float]:
        """Log slow-downs of the reference's slow lengths."""
        return slow_downs(self.reference.curve)

    @property
    def usual(self) -> float:
        """The mean log slow-down; 0 without a regime."""
        return fmean(self.slow.values()) if self.slow else 0.0

    @property
    def regime(self) -> Regime | None:
        return self.reference.curve.regime

    @cached_property
    def alike(self) -> list[str]:
        """The reference's series, and those that differ from it in what was observed alone."""
        return [
            self.reference.curve.series,
            *(arm.curve.series for arm in self.reference.along("instrument")),
        ]

    @cached_property
    def own(self) -> pl.DataFrame:
        """Requests of the configuration to explain, however observed."""
        return self.requests.filter(pl.col("series").is_in(self.alike) & (pl.col("status") == "ok"))

    def of(self, curve: Curve) -> pl.DataFrame:
        return self.requests.filter((pl.col("series") == curve.series) & (pl.col("status") == "ok"))

    def effect(self, arm: Arm) -> Effect:
        return self.effects[arm.curve.series]

    def longest_rest(self) -> Arm | None:
        """The arm with the longest rest between requests."""
        rests = [(float(match[1]), arm) for arm in self.reference.arms if (match := REST.fullmatch(arm.value))]
        return max(rests, key=lambda rest: rest[0])[1] if rests else None


def regime(sight: Sight) -> Observation:
    """Slow-down of measured requests in the reference's regime, as a factor; 1 when it is smooth."""
    curve = sight.reference.curve
    if sight.slow:
        logs = [(value, max(curve.points[n].variance, 1e-4)) for n, value in sight.slow.items()]
        interval = mean_interval(logs)
        assert interval is not None
        factor = Interval(*(math.exp(end) for end in (interval.value, interval.low, interval.high)))
        return _seen(factor, f"measured requests {factor.value:.1f} times slower than the trend", n=len(logs))
    if curve.row["verdict"] == "smooth":
        return _exactly(1.0, f"no slow regime in {len(curve.points)} lengths", n=len(curve.points))
    return _unseen(f"a reference that is not {curve.row['verdict']}: {curve.row['reason']}")


def first_pass(sight: Sight) -> Observation:
    """First request of a process over its measured ones, at lengths below any regime, as a factor."""
    onset = min(sight.slow, default=math.inf)
    found = [pair for n, pair in _first_over_measured(sight, sight.reference.curve).items() if n < onset]
    interval = mean_interval(found)
    if interval is None:
        return _unseen("a warm-up request in a fresh process")
    factor = Interval(*(math.exp(end) for end in (interval.value, interval.low, interval.high)))
    return _seen(factor, f"the first request takes {factor.value:.2f} times what later ones take", n=len(found))


def first_in_regime(sight: Sight) -> Observation:
    """Extra time of a process's first request at slow lengths, as a share of what measured requests have there: 0, it is
    normal; 1, it is as slow.
    """
    ratios = _first_over_measured(sight, sight.reference.curve)
    slow = sight.slow
    found = [share(slow[n] + value, variance, slow[n]) for n, (value, variance) in ratios.items() if n in slow]
    interval = mean_interval(found)
    if interval is None:
        return _unseen("a warm-up request at a slow length")
    words = f"the first request has {_percent(interval.value)} of the extra time of later ones"
    return _seen(interval, words, n=len(found))


def emptied_kept(sight: Sight) -> Observation:
    """Share of the extra time kept when the allocator's cache is emptied between requests, at the first slow length: a
    longer request fills the memory by itself.
    """
    needs, arm = "between_requests: empty_cache", sight.reference.arm("between_requests", "empty_cache")
    kept = sight.effect(arm).kept if arm else {}
    first = min(sight.slow, default=None)
    if arm is None or first not in kept:
        return _unseen(f"{needs}, at the first slow length and at normal ones")
    interval = mean_interval([kept[first]])
    assert interval is not None
    return _seen(interval, f"at {first} tokens {_percent(interval.value)} of the extra time stays", _name(arm))


def static_kept(sight: Sight) -> Observation:
    """Share of the extra time kept with a cache that does not grow."""
    return _kept(sight, sight.reference.arm("kv_cache", "static"), "kv_cache: static")


def rest_kept(sight: Sight) -> Observation:
    """Share of the extra time kept with the longest rest between requests."""
    return _kept(sight, sight.longest_rest(), "between_requests: rest_<seconds>s")


def rest_gained(sight: Sight) -> Observation:
    """Share of the extra time that lengths which are normal gain with the longest rest, where they gain most."""
    return _gained(sight, sight.longest_rest(), "between_requests: rest_<seconds>s")


def ballast_gained(sight: Sight) -> Observation:
    """Share of the extra time that the last normal length gains when other memory is occupied."""
    arms = sight.reference.along("ballast_gb")
    if not arms or sight.regime is None or sight.regime.onset_low is None:
        return _unseen("ballast_gb, and a regime whose onset is seen")
    arm = max(arms, key=lambda arm: float(arm.value))
    low, high = sight.regime.onset_low, sight.regime.onset_high
    gained = {n: pair for n, pair in sight.effect(arm).gained.items() if n <= low}
    best = largest(gained)
    if best is None:
        return _unseen("ballast_gb at the last normal length")
    memory = memory_gb(str(sight.reference.curve.row["machine"]))
    if best[1].value < 0.5 and memory and RESOLVED * memory * (high - low) / high > float(arm.value):
        return _unseen(f"a ballast of more than {arm.value} GB, or an onset known better than to {high - low} tokens")
    return _seen(best[1], f"{best[0]} tokens gain {_percent(best[1].value)} of the extra time", _name(arm), len(gained))


def watermark_moved(sight: Sight) -> Observation:
    """Largest share of the extra time that appears beyond the recovery, or vanishes within the regime, when the
    allocator's watermarks are changed.
    """
    arms = sight.reference.along("watermark")
    if not arms or sight.regime is None or sight.regime.recovery_high is None:
        return _unseen("watermark, and a regime whose recovery is seen")
    moved = []
    for arm in arms:
        effect = sight.effect(arm)
        beyond = largest({n: pair for n, pair in effect.gained.items() if n >= sight.regime.recovery_high})
        gone = largest({n: (1 - value, variance) for n, (value, variance) in effect.kept.items()})
        moved += [(best[1].value, arm, best) for best in (beyond, gone) if best]
    if not moved:
        return _unseen("watermark at the lengths around the recovery")
    _, arm, (n, interval) = max(moved, key=lambda found: found[0])
    return _seen(interval, f"{n} tokens change by {_percent(interval.value)} of the extra time", _name(arm))


def running_slowdown(sight: Sight) -> Observation:
    """Largest latency over the reference's, as a factor, while the previous process still runs."""
    arm = sight.reference.arm("predecessor", "running")
    if arm is None:
        return _unseen("predecessor: running")
    curve, reference = arm.curve, sight.reference.curve
    shared = sorted(set(reference.lengths("normal")) & set(curve.points))
    over = {
        n: (curve.points[n].log_s - reference.points[n].log_s, curve.points[n].variance + reference.points[n].variance)
        for n in shared
    }
    best = largest(over)
    if best is None:
        return _unseen("predecessor: running at normal lengths")
    factor = Interval(*(math.exp(end) for end in (best[1].value, best[1].low, best[1].high)))
    return _seen(factor, f"{best[0]} tokens take {factor.value:.2f} times as long", _name(arm), len(shared))


def order_matters(sight: Sight) -> Observation:
    """Largest share of the extra time by which any length differs from the reference in a persistent process."""
    found: dict[tuple[str, int], tuple[float, float]] = {}
    for arm in sight.reference.along("order"):
        effect = sight.effect(arm)
        moved = {**effect.gained, **{n: (1 - value, variance) for n, (value, variance) in effect.kept.items()}}
        found |= {(arm.value, n): (abs(value), variance) for n, (value, variance) in moved.items()}
    if not found or not sight.slow:
        return _unseen("lifetime: persistent, in several orders")
    (order, n), pair = max(found.items(), key=lambda item: item[1][0])
    interval = mean_interval([pair])
    assert interval is not None
    return _seen(interval, f"{n} tokens change by {_percent(pair[0])} of the extra time", f"order {order}", len(found))


def position_agreement(sight: Sight) -> Observation:
    """Of the requests that reach the position of a slow step, the share that is slow there too."""
    timed = sight.own.filter(pl.col("instrument") == "per_step")
    rows = find_slow_steps(timed).series.to_dicts() if not timed.is_empty() else []
    row = next((row for row in rows if row["agreement"] is not None), None)
    if row is None or not sight.slow:
        return _unseen("instrument: per_step at slow and at normal lengths")
    return _exactly(row["agreement"], row["why"], "instrument per_step", row["n_requests"])


def driver_power(sight: Sight) -> Observation:
    """Power of the length with which driver-allocated memory grows, up to the last slow length."""
    last = max(sight.slow, default=math.inf)
    rows = sight.own.filter((pl.col("n_gen") <= last) & pl.col("torch_driver_bytes").is_not_null())
    fit = _fit(rows, "n_gen", "torch_driver_bytes")
    if fit is None:
        return _unseen("driver-allocated memory at three lengths, which MPS and CUDA report")
    return Observation(
        fit.power,
        f"{fit.kind}: {fit.change / GIB:.2f} GiB more at the longest of {fit.n} lengths",
        fit.low,
        fit.high,
        "reference",
        fit.n,
    )


def pool_settles(sight: Sight) -> Observation:
    """Relative growth of driver-allocated memory from a process's second request to its last."""
    rows = sight.own.filter(pl.col("torch_driver_bytes").is_not_null() & (pl.col("request") >= 1))
    growth = [
        (own["torch_driver_bytes"][-1] - own["torch_driver_bytes"][0]) / own["torch_driver_bytes"][0]
        for own in rows.sort("request").partition_by("series", "cell", "n_gen")
        if own.height > 1 and own["torch_driver_bytes"][0] > 0
    ]
    if not growth:
        return _unseen("driver-allocated memory in three requests of a process")
    interval = mean_interval([(value, 1e-4) for value in growth])
    assert interval is not None
    return _seen(interval, f"{_percent(interval.value)} more after the last request", n=len(growth))


def swap_grown(sight: Sight) -> Observation:
    """Swap in use after slow cells less that after normal ones, in GiB."""
    cells = _cells(sight, pl.col("swap_used_bytes").max() / GIB)
    interval = _difference(cells, sight)
    if interval is None:
        return _unseen("swap in use after slow and after normal cells")
    return _seen(interval, f"{interval.value:+.2f} GiB of swap with slow cells", n=cells.height)


def sentinel_share(sight: Sight) -> Observation:
    """How much slower the fixed workload runs after slow cells than after normal ones, as a share of the
    slow-down, both as logarithms.
    """
    cells = _cells(sight, pl.col("sentinel_after_s").log().first())
    interval = _difference(cells, sight)
    if interval is None or not sight.usual:
        return _unseen("sentinel times after slow and after normal cells")
    ends = (end / sight.usual for end in (interval.value, interval.low, interval.high))
    return _seen(Interval(*ends), f"the fixed workload takes {math.exp(interval.value):.2f} times as long", n=cells.height)


def recovery_seen(sight: Sight) -> Observation:
    """1 when lengths beyond the regime are normal again, 0 when the largest one measured is still slow."""
    if sight.regime is None:
        return _unseen("a slow regime")
    seen = sight.regime.recovery_high is not None
    return _exactly(float(seen), "fast again at longer lengths" if seen else "slow up to the longest length measured")


def driver_drop(sight: Sight) -> Observation:
    """Largest drop of driver-allocated memory within a process beyond the recovery, as a share of what it held, less
    the same at slow lengths.
    """
    if sight.regime is None or sight.regime.recovery_high is None:
        return _unseen("a regime whose recovery is seen")
    samples = sight.samples.filter(pl.col("series").is_in(sight.alike))
    columns = ("series", "cell", "n_gen", "request", "offset_s", "torch_driver_bytes")
    at_end = sight.own.with_columns(offset_s=pl.lit(math.inf))
    readings = pl.concat([samples.select(columns), at_end.select(columns)]).drop_nulls("torch_driver_bytes")
    drops: dict[bool, list[float]] = {True: [], False: []}
    for own in readings.sort("request", "offset_s").partition_by("series", "cell", "n_gen"):
        n = own["n_gen"][0]
        if n in sight.slow or n >= sight.regime.recovery_high:
            held = own["torch_driver_bytes"].to_numpy().astype(float)
            fall = float(np.max(np.maximum.accumulate(held) - held) / held.max()) if held.max() > 0 else 0.0
            drops[n not in sight.slow].append(fall)
    if not drops[True] or not drops[False]:
        return _unseen("driver-allocated memory within slow and within recovered requests: instrument: memory")
    beyond, within = max(drops[True]), max(drops[False])
    words = f"{_percent(beyond)} given back at once beyond the recovery, {_percent(within)} in the regime"
    return _exactly(beyond - within, words, n=len(drops[True]) + len(drops[False]))


def first_pass_emptied(sight: Sight) -> Observation:
    """Share of the first request's excess that stays when the allocator's cache is emptied between requests."""
    arm = sight.reference.arm("between_requests", "empty_cache")
    if arm is None:
        return _unseen("between_requests: empty_cache")
    return _first_pass_ratio(sight, arm, lambda own, usual: own / usual, "of the first request's excess stays")


def first_pass_eager(sight: Sight) -> Observation:
    """The first request's excess in seconds with eager attention, over that of the reference."""
    arm = sight.reference.arm("attention", "eager")
    if arm is None:
        return _unseen("attention: eager")
    return _first_pass_ratio(
        sight, arm, lambda own, usual: math.expm1(own) / math.expm1(usual), "times the reference's excess"
    )


def pool_at_onset(sight: Sight) -> Observation:
    """1 when one size of the pool lies within the onset's bracket for every prompt and dtype, 0 when none does."""
    return _one_threshold(sight, _pool, "size of the pool")


def length_at_onset(sight: Sight) -> Observation:
    """1 when one total length lies within the onset's bracket for every prompt and dtype, 0 when none does."""
    return _one_threshold(sight, lambda row, n: float(row["n_prompt"] + n), "total length")


OBSERVABLES: Mapping[str, Callable[[Sight], Observation]] = {
    observe.__name__: observe
    for observe in (
        regime,
        first_pass,
        first_in_regime,
        emptied_kept,
        static_kept,
        rest_kept,
        rest_gained,
        ballast_gained,
        watermark_moved,
        running_slowdown,
        order_matters,
        position_agreement,
        driver_power,
        pool_settles,
        swap_grown,
        sentinel_share,
        recovery_seen,
        driver_drop,
        first_pass_emptied,
        first_pass_eager,
        pool_at_onset,
        length_at_onset,
    )
}
"""By name; the docstring says what the number is."""


def _name(arm: Arm) -> str:
    return f"{arm.axis} {arm.value}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _kept(sight: Sight, arm: Arm | None, needs: str) -> Observation:
    interval = mean_interval(list(sight.effect(arm).kept.values())) if arm else None
    if arm is None or interval is None:
        return _unseen(f"{needs}, at slow and at normal lengths")
    n = len(sight.effect(arm).kept)
    return _seen(interval, f"{_percent(interval.value)} of the extra time stays", _name(arm), n)


def _gained(sight: Sight, arm: Arm | None, needs: str) -> Observation:
    best = largest(sight.effect(arm).gained) if arm else None
    if arm is None or best is None:
        return _unseen(f"{needs}, with a slow regime to compare")
    words = f"{best[0]} tokens gain {_percent(best[1].value)} of the extra time"
    return _seen(best[1], words, _name(arm), len(sight.effect(arm).gained))


def _first_over_measured(sight: Sight, curve: Curve) -> dict[int, tuple[float, float]]:
    """Log of the first request over the median of the measured ones, with its variance, by length; fresh processes."""
    rows = sight.of(curve).filter(pl.col("lifetime") == "fresh")
    found = {}
    for (n,), own in rows.group_by("n_gen"):
        first = own.filter((pl.col("request") == 0) & (pl.col("phase") == "warmup"))["e2e_s"].log()
        later = own.filter(pl.col("phase") == "measured")["e2e_s"].log()
        if len(first) and len(later) > 1:
            spread = max(float(later.var() or 0.0), 1e-4)  # type: ignore[arg-type]
            value = float(first.mean() - later.median())  # type: ignore[operator]
            found[int(n)] = (value, spread / len(first) + 1.57 * spread / len(later))  # type: ignore[call-overload]
    return found


def _first_pass_ratio(
    sight: Sight, arm: Arm, ratio: Callable[[float, float], float], told: str
) -> Observation:
    usual, own = _first_over_measured(sight, sight.reference.curve), _first_over_measured(sight, arm.curve)
    shared = [n for n in usual if n in own and n not in sight.slow and usual[n][0] > math.log(1.2)]
    found = [
        (ratio(own[n][0], usual[n][0]), (own[n][1] + usual[n][1]) / usual[n][0] ** 2) for n in shared
    ]
    interval = mean_interval(found)
    if interval is None:
        return _unseen("a first request that is clearly slower than later ones")
    return _seen(interval, f"{interval.value:.2f} {told}", _name(arm), len(found))


def _cells(sight: Sight, value: pl.Expr) -> pl.DataFrame:
    """One value a cell of the configuration to explain."""
    return (
        sight.own.group_by("series", "cell", "n_gen")
        .agg(value=value)
        .filter(pl.col("value").is_not_null() & pl.col("value").is_finite())
    )


def _difference(cells: pl.DataFrame, sight: Sight) -> Interval | None:
    """Mean over slow cells less the mean over normal ones, with Welch's interval; None below two of each."""
    normal = sight.reference.curve.lengths("normal")
    slow_values = cells.filter(pl.col("n_gen").is_in(list(sight.slow)))["value"].to_numpy()
    normal_values = cells.filter(pl.col("n_gen").is_in(normal))["value"].to_numpy()
    if min(len(slow_values), len(normal_values)) < 2:
        return None
    parts = [max(float(v.var(ddof=1)), 1e-6) / len(v) for v in (slow_values, normal_values)]
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(v) - 1) for part, v in zip(parts, (slow_values, normal_values), strict=True)
    )
    half = float(student_quantile(freedom)) * math.sqrt(sum(parts))
    value = float(slow_values.mean() - normal_values.mean())
    return Interval(value, value - half, value + half)


def _fit(rows: pl.DataFrame, x: str, y: str):  # type: ignore[no-untyped-def]
    cells = rows.group_by("cell", x).agg(pl.col(y).max())
    x_values: Array = cells[x].to_numpy().astype(float)
    return fit_growth(x_values, cells[y].to_numpy().astype(float))


def _pool(row: Mapping[str, object], n_gen: int) -> float:
    """Bytes of the pool by its formula, up to a factor of the model."""
    n_prompt = int(row["n_prompt"])  # type: ignore[call-overload]
    first, last = n_prompt + 1, n_prompt + n_gen - 1
    return BYTES_PER_VALUE[str(row["dtype"])] * (first + last) * (last - first + 1) / 2


def _one_threshold(sight: Sight, size: Callable[[Mapping[str, object], int], float], told: str) -> Observation:
    arms = [*sight.reference.along("n_prompt"), *sight.reference.along("dtype")]
    brackets = [_bracket(curve, size) for curve in (sight.reference.curve, *(arm.curve for arm in arms))]
    known = [bracket for bracket in brackets if bracket]
    if sight.regime is None or brackets[0] is None or len(known) < 2:
        return _unseen("n_prompt or dtype, with an onset that is seen")
    low, high = max(low for low, _ in known), min(high for _, high in known)
    words = f"{'one' if low < high else 'no one'} {told} fits the onsets of {len(known)} curves"
    return _exactly(float(low < high), words, "n_prompt, dtype", len(known))


def _bracket(curve: Curve, size: Callable[[Mapping[str, object], int], float]) -> tuple[float, float] | None:
    """Sizes between which the onset lies; without a regime, from the longest length on."""
    if curve.regime is not None:
        low = curve.regime.onset_low
        return (0.0 if low is None else size(curve.row, low)), size(curve.row, curve.regime.onset_high)
    if curve.row["verdict"] == "smooth":
        return size(curve.row, max(curve.points)), math.inf
    return None
