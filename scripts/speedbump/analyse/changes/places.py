"""Which places are compared, and which of their series belong together."""

from itertools import combinations
from typing import Any

import polars as pl

from speedbump.grid.axes import AXES, NOT_IN_SERIES
from speedbump.grid.stack import stack_order

Row = dict[str, Any]
Place = tuple[str, str]
"""Machine and stack."""

SERIES_AXES = tuple(axis.name for axis in AXES if axis.name not in NOT_IN_SERIES)


def pair_places(series: pl.DataFrame) -> list[tuple[Place, Place]]:
    """Every two stacks of a machine, the older first; and every two machines, under every stack that both have, or
    where there is none under the newest of each.
    """
    stacks: dict[str, list[str]] = {}
    for machine, stack in series.select("machine", "stack").unique().rows():
        stacks.setdefault(machine, []).append(stack)
    pairs = []
    for machine in sorted(stacks):
        stacks[machine].sort(key=stack_order)
        pairs += [((machine, old), (machine, new)) for old, new in combinations(stacks[machine], 2)]
    for one, other in combinations(sorted(stacks), 2):
        shared = [stack for stack in stacks[one] if stack in stacks[other]]
        pairs += [((one, stack), (other, stack)) for stack in shared]
        pairs += [] if shared else [((one, stacks[one][-1]), (other, stacks[other][-1]))]
    return pairs


def pair_series(series: pl.DataFrame, old: Place, new: Place) -> list[tuple[str, str]]:
    """Series alike in every axis. Two machines seldom have one kind of accelerator, so between them the CPUs are
    compared, and the accelerators.
    """
    grouped = {key: _by_axes(series, key, same_machine=old[0] == new[0]) for key in (old, new)}
    return [
        (one, other)
        for axes in sorted(grouped[old].keys() & grouped[new].keys(), key=str)
        for one in grouped[old][axes]
        for other in grouped[new][axes]
    ]


def _by_axes(series: pl.DataFrame, place: Place, same_machine: bool) -> dict[tuple[Any, ...], list[str]]:
    found: dict[tuple[Any, ...], list[str]] = {}
    for row in series.filter(machine=place[0], stack=place[1]).sort("series").iter_rows(named=True):
        device = row["device"] if same_machine else row["device"] == "cpu"
        axes = (device, *(row[name] for name in SERIES_AXES if name != "device"))
        found.setdefault(axes, []).append(row["series"])
    return found
