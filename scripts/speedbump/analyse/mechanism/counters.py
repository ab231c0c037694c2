"""Observations of counters: memory, swap, and the fixed workload that runs before and after every cell."""

import math

import numpy as np
import polars as pl

from speedbump.analyse.confidence import Interval, student_quantile
from speedbump.analyse.mechanism.effects import mean_interval
from speedbump.analyse.mechanism.growth import Growth, fit_growth
from speedbump.analyse.mechanism.sight import Observation, Sight, exactly, percent, seen, unseen

GIB = 2**30


def driver_power(sight: Sight) -> Observation:
    """Power of the length with which driver-allocated memory grows, up to the last slow length."""
    last = max(sight.reference.curve.lengths("slow"), default=math.inf)
    rows = sight.own.filter((pl.col("n_gen") <= last) & pl.col("torch_driver_bytes").is_not_null())
    fit = _fit(rows, "n_gen", "torch_driver_bytes")
    if fit is None:
        return unseen("driver-allocated memory at three lengths, which MPS and CUDA report")
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
        return unseen("driver-allocated memory in three requests of a process")
    interval = mean_interval([(value, 1e-4) for value in growth])
    assert interval is not None
    return seen(interval, f"{percent(interval.value)} more after the last request", n=len(growth))


def driver_drop(sight: Sight) -> Observation:
    """Largest drop of driver-allocated memory within a process beyond the recovery, as a share of what it held, less
    the same at slow lengths.
    """
    if sight.regime is None or sight.regime.recovery_high is None:
        return unseen("a regime whose recovery is seen")
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
        return unseen("driver-allocated memory within slow and within recovered requests: instrument: memory")
    beyond, within = max(drops[True]), max(drops[False])
    words = f"{percent(beyond)} given back at once beyond the recovery, {percent(within)} in the regime"
    return exactly(beyond - within, words, n=len(drops[True]) + len(drops[False]))


def swap_grown(sight: Sight) -> Observation:
    """Swap in use after slow cells less that after normal ones, in GiB."""
    cells = _cells(sight, pl.col("swap_used_bytes").max() / GIB)
    interval = _difference(cells, sight)
    if interval is None:
        return unseen("swap in use after slow and after normal cells")
    return seen(interval, f"{interval.value:+.2f} GiB of swap with slow cells", n=cells.height)


def sentinel_share(sight: Sight) -> Observation:
    """How much slower the device's fixed workload runs after slow cells than after normal ones, as a share of the
    slow-down, both as logarithms.
    """
    cells = _cells(sight, pl.col("sentinel_after_s").log().first())
    interval = _difference(cells, sight)
    if interval is None or not sight.usual:
        return unseen("sentinel times after slow and after normal cells")
    ends = (end / sight.usual for end in (interval.value, interval.low, interval.high))
    return seen(
        Interval(*ends), f"the fixed workload takes {math.exp(interval.value):.2f} times as long", n=cells.height
    )


def _fit(rows: pl.DataFrame, x: str, y: str) -> Growth | None:
    cells = rows.group_by("cell", x).agg(pl.col(y).max())
    return fit_growth(*(cells[name].to_numpy().astype(float) for name in (x, y)))


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
