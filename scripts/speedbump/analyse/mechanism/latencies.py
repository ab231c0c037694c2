"""Observations of latencies: in the arms, in a process's first request, at the positions of steps."""

import math
from collections.abc import Callable

import numpy as np
import polars as pl

from speedbump.analyse.claims.evidence import memory_gb
from speedbump.analyse.confidence import Interval
from speedbump.analyse.mechanism.arms import Arm, Curve
from speedbump.analyse.mechanism.effects import largest, mean_interval, share
from speedbump.analyse.mechanism.sight import Observation, Sight, exactly, name_of, percent, seen, unseen
from speedbump.analyse.step_times import find_slow_steps

_LEAST_VARIANCE = 1e-4
_LEAST_LENGTHS = 3
_OF_MEDIAN = 1.57
"""Variance of a median over that of a mean."""
RESOLVED = 0.85 * 2
"""By the pool's formula need grows with the square of the length, and is 0.85 of the memory at the onset: a ballast
can only be seen where it is more than this share of the memory times the relative width of the onset's bracket."""


def regime(sight: Sight) -> Observation:
    """Largest slow-down of measured requests in the reference, as a factor; 1 when it is smooth."""
    curve = sight.reference.curve
    if sight.slow:
        n = max(sight.slow, key=sight.slow.__getitem__)
        interval = mean_interval([(sight.slow[n], curve.points[n].variance)])
        assert interval is not None
        factor = Interval(*(math.exp(end) for end in (interval.value, interval.low, interval.high)))
        return seen(factor, f"measured requests are {factor.value:.1f} times slower than the trend at {n} tokens")
    if curve.row["verdict"] == "smooth":
        return exactly(1.0, f"no slow regime in {len(curve.points)} lengths", n=len(curve.points))
    return unseen(f"a reference that is not {curve.row['verdict']}: {curve.row['reason']}")


def first_pass(sight: Sight) -> Observation:
    """Time of each further token in a process's first request over that in its measured ones, as a factor, at normal
    lengths below any regime. What the start of a process costs once is not in it.
    """
    onset = min(sight.reference.curve.lengths("slow"), default=math.inf)
    normal = [n for n in sight.reference.curve.lengths("normal") if n < onset]
    ratios = _first_over_measured(sight, sight.reference.curve)
    lengths = [n for n in normal if n in ratios]
    if len(lengths) < _LEAST_LENGTHS:
        return unseen(f"warm-up requests at {_LEAST_LENGTHS} normal lengths")
    points = sight.reference.curve.points
    n = np.array(lengths, float)
    usual_s = np.array([math.exp(points[length].log_s) for length in lengths])
    extra = np.array([math.expm1(ratios[length][0]) for length in lengths])
    spread = np.array([math.sqrt(ratios[length][1]) for length in lengths])
    # extra seconds as a line over the length, in units of the usual seconds, so that the noise is alike
    columns = np.column_stack([1 / usual_s, n / usual_s])
    weight = 1 / (spread * np.maximum(1 + extra, 1))
    covariance = np.linalg.inv((columns * weight[:, None] ** 2).T @ columns)
    slope = float((covariance @ (columns.T @ (extra * weight**2)))[1])
    token_s = float(np.median(usual_s / n))
    half = 2 * math.sqrt(float(covariance[1, 1]))
    factor = Interval(*(1 + end / token_s for end in (slope, slope - half, slope + half)))
    words = f"a further token takes {factor.value:.2f} times as long in the first request as later"
    return seen(factor, words, n=len(lengths))


def first_in_regime(sight: Sight) -> Observation:
    """Extra time of a process's first request at slow lengths, as a share of what measured requests have there: 0, it
    is normal; 1, it is as slow.
    """
    ratios = _first_over_measured(sight, sight.reference.curve)
    slow = sight.slow
    found = [share(slow[n] + value, variance, slow[n]) for n, (value, variance) in ratios.items() if n in slow]
    interval = mean_interval(found)
    if interval is None:
        return unseen("a warm-up request at a slow length")
    words = f"the first request has {percent(interval.value)} of the extra time of later ones"
    return seen(interval, words, n=len(found))


def emptied_kept(sight: Sight) -> Observation:
    """Share of the extra time kept when the allocator's cache is emptied between requests, at the first clearly slow
    length: a longer request fills the memory by itself.
    """
    needs, arm = "between_requests: empty_cache", sight.reference.arm("between_requests", "empty_cache")
    kept = sight.effect(arm).kept if arm else {}
    first = min(sight.slow, default=None)
    if arm is None or first not in kept:
        return unseen(f"{needs}, at the first slow length and at normal ones")
    interval = mean_interval([kept[first]])
    assert interval is not None
    return seen(interval, f"at {first} tokens {percent(interval.value)} of the extra time stays", name_of(arm))


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
        return unseen("ballast_gb, and a regime whose onset is seen")
    arm = max(arms, key=lambda arm: float(arm.value))
    low, high = sight.regime.onset_low, sight.regime.onset_high
    gained = {n: pair for n, pair in sight.effect(arm).gained.items() if n <= low}
    best = largest(gained)
    if best is None:
        return unseen("ballast_gb at the last normal length")
    memory = memory_gb(str(sight.reference.curve.row["machine"]))
    if best[1].value < 0.5 and memory and RESOLVED * memory * (high - low) / high > float(arm.value):
        return unseen(f"a ballast of more than {arm.value} GB, or an onset known better than to {high - low} tokens")
    return seen(best[1], f"{best[0]} tokens gain {percent(best[1].value)} of the extra time", name_of(arm), len(gained))


def watermark_moved(sight: Sight) -> Observation:
    """Largest share of the extra time that appears beyond the recovery, or vanishes within the regime, when the
    allocator's watermarks are changed.
    """
    arms = sight.reference.along("watermark")
    if not arms or sight.regime is None or sight.regime.recovery_high is None:
        return unseen("watermark, and a regime whose recovery is seen")
    moved = []
    for arm in arms:
        effect = sight.effect(arm)
        beyond = largest({n: pair for n, pair in effect.gained.items() if n >= sight.regime.recovery_high})
        gone = largest({n: (1 - value, variance) for n, (value, variance) in effect.kept.items()})
        moved += [(best[1].value, arm, best) for best in (beyond, gone) if best]
    if not moved:
        return unseen("watermark at the lengths around the recovery")
    _, arm, (n, interval) = max(moved, key=lambda found: found[0])
    return seen(interval, f"{n} tokens change by {percent(interval.value)} of the extra time", name_of(arm))


def running_slowdown(sight: Sight) -> Observation:
    """Largest latency over the reference's, as a factor, while the previous process still runs."""
    arm = sight.reference.arm("predecessor", "running")
    if arm is None:
        return unseen("predecessor: running")
    curve, reference = arm.curve, sight.reference.curve
    shared = sorted(set(reference.lengths("normal")) & set(curve.points))
    over = {
        n: (curve.points[n].log_s - reference.points[n].log_s, curve.points[n].variance + reference.points[n].variance)
        for n in shared
    }
    best = largest(over)
    if best is None:
        return unseen("predecessor: running at normal lengths")
    factor = Interval(*(math.exp(end) for end in (best[1].value, best[1].low, best[1].high)))
    return seen(factor, f"{best[0]} tokens take {factor.value:.2f} times as long", name_of(arm), len(shared))


def order_matters(sight: Sight) -> Observation:
    """Largest share of the extra time by which any length differs from the reference in a persistent process."""
    found: dict[tuple[str, int], tuple[float, float]] = {}
    for arm in sight.reference.along("order"):
        effect = sight.effect(arm)
        moved = {**effect.gained, **{n: (1 - value, variance) for n, (value, variance) in effect.kept.items()}}
        found |= {(arm.value, n): (abs(value), variance) for n, (value, variance) in moved.items()}
    if not found or not sight.slow:
        return unseen("lifetime: persistent, in several orders")
    (order, n), pair = max(found.items(), key=lambda item: item[1][0])
    interval = mean_interval([pair])
    assert interval is not None
    return seen(interval, f"{n} tokens change by {percent(pair[0])} of the extra time", f"order {order}", len(found))


def position_agreement(sight: Sight) -> Observation:
    """Of the requests that reach the position of a slow step, the share that is slow there too."""
    timed = sight.own.filter(pl.col("instrument") == "per_step")
    rows = find_slow_steps(timed).series.to_dicts() if not timed.is_empty() else []
    row = next((row for row in rows if row["agreement"] is not None), None)
    if row is None or not sight.slow:
        return unseen("instrument: per_step at slow and at normal lengths")
    return exactly(row["agreement"], row["why"], "instrument per_step", row["n_requests"])


def recovery_seen(sight: Sight) -> Observation:
    """1 when lengths beyond the regime are normal again, 0 when the largest one measured is still slow."""
    if sight.regime is None:
        return unseen("a slow regime")
    seen = sight.regime.recovery_high is not None
    return exactly(float(seen), "fast again at longer lengths" if seen else "slow up to the longest length measured")


def first_pass_emptied(sight: Sight) -> Observation:
    """Share of the first request's excess that stays when the allocator's cache is emptied between requests."""
    arm = sight.reference.arm("between_requests", "empty_cache")
    if arm is None:
        return unseen("between_requests: empty_cache")
    return _first_pass_ratio(sight, arm, lambda own, usual: own / usual, "of the first request's excess stays")


def first_pass_eager(sight: Sight) -> Observation:
    """The first request's excess in seconds with eager attention, over that of the reference."""
    arm = sight.reference.arm("attention", "eager")
    if arm is None:
        return unseen("attention: eager")
    return _first_pass_ratio(
        sight, arm, lambda own, usual: math.expm1(own) / math.expm1(usual), "times the reference's excess"
    )


def _kept(sight: Sight, arm: Arm | None, needs: str) -> Observation:
    interval = mean_interval(list(sight.effect(arm).kept.values())) if arm else None
    if arm is None or interval is None:
        return unseen(f"{needs}, at slow and at normal lengths")
    n = len(sight.effect(arm).kept)
    return seen(interval, f"{percent(interval.value)} of the extra time stays", name_of(arm), n)


def _gained(sight: Sight, arm: Arm | None, needs: str) -> Observation:
    best = largest(sight.effect(arm).gained) if arm else None
    if arm is None or best is None:
        return unseen(f"{needs}, with a slow regime to compare")
    words = f"{best[0]} tokens gain {percent(best[1].value)} of the extra time"
    return seen(best[1], words, name_of(arm), len(sight.effect(arm).gained))


def _first_over_measured(sight: Sight, curve: Curve) -> dict[int, tuple[float, float]]:
    """Log of the first request over the median of the measured ones, with its variance, by length, of fresh processes
    at the curve's points.
    """
    rows = sight.of(curve).filter(pl.col("lifetime") == "fresh")
    log_s = pl.col("e2e_s").log()
    measured = pl.col("phase") == "measured"
    lengths = rows.group_by("n_gen").agg(
        n_first=((pl.col("request") == 0) & ~measured).sum(),
        n_later=measured.sum(),
        first=log_s.filter((pl.col("request") == 0) & ~measured).mean(),
        later=log_s.filter(measured).median(),
        spread=log_s.filter(measured).var(),
    )
    return {
        row["n_gen"]: (
            row["first"] - row["later"],
            max(row["spread"], _LEAST_VARIANCE) * (1 / row["n_first"] + _OF_MEDIAN / row["n_later"]),
        )
        for row in lengths.iter_rows(named=True)
        if row["n_gen"] in curve.points and row["n_first"] and row["n_later"] > 1
    }


def _first_pass_ratio(sight: Sight, arm: Arm, ratio: Callable[[float, float], float], told: str) -> Observation:
    usual, own = _first_over_measured(sight, sight.reference.curve), _first_over_measured(sight, arm.curve)
    slow = sight.reference.curve.lengths("slow")
    shared = [n for n in usual if n in own and n not in slow and usual[n][0] > math.log(1.2)]
    found = [(ratio(own[n][0], usual[n][0]), (own[n][1] + usual[n][1]) / usual[n][0] ** 2) for n in shared]
    interval = mean_interval(found)
    if interval is None:
        return unseen("a first request that is clearly slower than later ones")
    return seen(interval, f"{interval.value:.2f} {told}", name_of(arm), len(found))
