"""Cells measured on one machine at one time: how many beside each, and whether they disturbed one another."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from speedbump.analyse.confidence import Interval, student_quantile
from speedbump.analyse.curve import Array

ALONE = 0.05
"""Mean number of neighbours below which a cell counts as measured alone."""
BESIDE = 0.5
"""And from which on as measured beside others."""


@dataclass(frozen=True)
class Effect:
    """How much longer something took beside neighbours than alone, as a ratio of geometric means.

    groups: sets of like things that hold both kinds; only they say something.
    """

    ratio: Interval
    groups: int
    alone: int
    beside: int


@dataclass(frozen=True)
class Neighbours:
    """Of one machine and stack: cells by company, and what it cost. None: no like cells were measured both ways."""

    devices: int
    most: int
    alone: int
    beside: int
    on_sentinels: Effect | None
    on_host_sentinels: Effect | None
    on_latencies: Effect | None


def count_neighbours(records: Iterable[Mapping[str, Any]]) -> list[float | None]:
    """For each run the number of others measured on its machine meanwhile, a mean over the time that it held a device.

    records: metadata of run files. None for one that does not say when it held which device. Nodes of one kind are
    told apart by their boots.
    """
    nodes: dict[tuple[str, str | None], list[tuple[int, float, float]]] = {}
    count = 0
    for record in records:
        held = record.get("held")
        if held and held["until_s"] > held["since_s"]:
            hold = (count, held["since_s"], held["until_s"])
            nodes.setdefault((record["machine"], held["boot"]), []).append(hold)
        count += 1
    mean: list[float | None] = [None] * count
    for holds in nodes.values():
        at, since, until = map(np.array, zip(*holds, strict=True))
        since, until = since - since.min(), until - since.min()  # sums of Unix seconds would lose digits
        occupied_s = _occupied_s(since, until, until) - _occupied_s(since, until, since)
        for number, others in zip(at, occupied_s / (until - since) - 1, strict=True):
            mean[number] = max(0.0, float(others))
    return mean


def _occupied_s(since: Array, until: Array, moments: Array) -> Array:
    """Seconds of device time spent before each moment, over all holds: the integral of how many there are."""
    return _elapsed_s(since, moments) - _elapsed_s(until, moments)


def _elapsed_s(marks: Array, moments: Array) -> Array:
    """Sum over all marks of the time from mark to moment, those after the moment left out."""
    marks = np.sort(marks)
    before = np.searchsorted(marks, moments)
    return np.asarray(before * moments - np.concatenate([[0.0], np.cumsum(marks)])[before])


def compare_neighbours(cells: pl.DataFrame) -> Neighbours | None:
    """What neighbours cost, from the ``cells`` of one machine and stack; None where none had a neighbour.

    Sentinels are compared within each device. Latencies are compared within cells of one series, budget and device,
    which differ in the process alone: a study asks for them with ``process: [1, 2]``.
    """
    known = cells.filter(pl.col("neighbours").is_not_null())
    beside = known.filter(pl.col("neighbours") >= BESIDE)
    if beside.is_empty():
        return None
    whole = known.filter(outcome="ok")
    return Neighbours(
        devices=known["slot"].drop_nulls().n_unique(),
        most=1 + math.ceil(max(known["neighbours"]) - ALONE),
        alone=known.filter(pl.col("neighbours") < ALONE).height,
        beside=beside.height,
        on_sentinels=_effect(known.unique("cell"), "sentinel_s", ["slot"]),
        on_host_sentinels=_effect(known.unique("cell"), "host_sentinel_s", ["slot"]),
        on_latencies=_effect(whole, "e2e_median_s", ["series", "n_gen", "slot"]),
    )


def _effect(cells: pl.DataFrame, value: str, group: list[str]) -> Effect | None:
    """Least squares of the logarithm on company, with an effect for each group; Student's t."""
    rows = cells.filter(
        pl.col(value).is_not_null() & ~pl.col("neighbours").is_between(ALONE, BESIDE, closed="left")
    ).select(*group, beside=(pl.col("neighbours") >= BESIDE).cast(pl.Float64), log=pl.col(value).log())
    both = rows.filter(pl.col("beside").n_unique().over(group) == 2)
    groups = both.select(group).n_unique() if both.height else 0
    freedom = both.height - groups - 1
    if freedom < 1:
        return None
    centred = both.select(pl.col(name) - pl.col(name).mean().over(group) for name in ("beside", "log"))
    company, log = centred["beside"].to_numpy(), centred["log"].to_numpy()
    weight = float(company @ company)
    slope = float(company @ log) / weight
    residual = log - slope * company
    half = float(student_quantile(freedom)) * math.sqrt(float(residual @ residual) / freedom / weight)
    ratio = Interval(math.exp(slope), math.exp(slope - half), math.exp(slope + half))
    n_beside = int(both["beside"].sum())
    return Effect(ratio, groups, both.height - n_beside, n_beside)
