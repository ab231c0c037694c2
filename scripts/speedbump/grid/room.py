"""Whether cells fit into the machine's memory, and what is measured in place of those that do not."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from speedbump.grid.cells import Cell, cell_id, complete
from speedbump.grid.estimate import FIT_SHARE, cell_need
from speedbump.grid.listing import visible
from speedbump.grid.models import Model
from speedbump.grid.order import MOST_BLOCKS, measuring_order
from speedbump.grid.study import Study

GIB = 2**30
HOW_TO_ASK = "limits: {beyond_memory: true} in the study, or --config 'limits={beyond_memory: true}'"
SINCE = "SPEEDBUMP_STOPS_SINCE"
"""Names a time in Unix seconds: a run that measures cells again does not count earlier stops of the memory guard."""
STEP = 8
"""Tokens: lengths that are made shorter keep to multiples of it."""


def memory_of(machine: str) -> float:
    """Bytes of memory by the machine's slug, such as ``apple-m3-max-36gb``; infinite where the slug does not say."""
    match = re.search(r"-(\d+)gb$", machine.partition("_")[0])
    return int(match[1]) * GIB if match else math.inf


@dataclass(frozen=True)
class Room:
    """A machine's memory, and the cells that its user has already asked for.

    memory_bytes: infinite where it is not known.  runs: ``runs/<machine>``: a cell that was measured on any stack of
    the machine stays in its study, however much it needs.  asked: the study's ``limits: beyond_memory``.
    """

    memory_bytes: float
    runs: Path
    asked: bool = False

    @cached_property
    def _measured(self) -> Collection[str]:
        return {file.stem for file in visible(self.runs, "*/*.parquet")}

    def keeps(self, cell: Cell, model: Model) -> bool:
        """Whether the cell may be started: it fits, or it was asked for, now or before."""
        return self.asked or cell_need(cell, model) <= self.memory_bytes or cell_id(cell) in self._measured

    def is_risky(self, cell: Cell, model: Model) -> bool:
        """Whether the cell needs so much memory that its curve is measured upwards in length."""
        return cell_need(cell, model) > FIT_SHARE * self.memory_bytes


def leave_out(cells: Iterable[Cell], room: Room, models: Mapping[str, Model]) -> tuple[list[Cell], list[str]]:
    """The cells that may be started, and a sentence for each model and device with others."""
    kept: list[Cell] = []
    over: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        if room.keeps(cell, models[cell["model"]]):
            kept.append(cell)
        else:
            over.setdefault((cell["model"], cell["device"]), []).append(cell)
    return kept, [_left_out(model, device, own, room, models) for (model, device), own in over.items()]


def _left_out(model: str, device: str, cells: list[Cell], room: Room, models: Mapping[str, Model]) -> str:
    needs = sorted(cell_need(cell, models[model]) / GIB for cell in cells)
    lengths = sorted(longest(cell) for cell in cells)
    one = len(cells) == 1
    return (
        f"{model} on {device}: {len(cells)} cell{'' if one else 's'} of {_span(lengths)} tokens "
        f"{'needs' if one else 'need'} {_span(round(need) for need in needs)} GiB, more than this machine's "
        f"{room.memory_bytes / GIB:.0f}, and {'is' if one else 'are'} left out; to measure {'it' if one else 'them'}: "
        f"{HOW_TO_ASK}"
    )


def choose_fitting(
    options: Sequence[list[dict[str, Any]]], room: Room, need: Callable[[Mapping[str, Any]], float]
) -> tuple[list[dict[str, Any]], str | None]:
    """The first of the options whose cells all fit FIT_SHARE of the memory, else the last at shorter lengths; and a
    sentence where that is not the first.

    options: products of axes, the one that is wanted first.  need: bytes of one of their cells; 0 for one that is not
    measured here.
    """
    most = FIT_SHARE * room.memory_bytes
    wanted = options[0]
    if room.asked or all(need(axes) <= most for axes in wanted):
        return wanted, None
    chosen = next((axes for axes in options if all(need(one) <= most for one in axes)), None)
    if chosen is None:
        chosen = _shorter(options[-1], lambda axes: need(axes) <= most)
    needs = max(map(need, wanted)) / GIB
    return chosen, (
        f"{_in_words(wanted)} needs up to {needs:.0f} GiB, more than {FIT_SHARE:g} of this machine's "
        f"{room.memory_bytes / GIB:.0f}: {_in_words(chosen)} is measured instead"
    )


def _shorter(axes: list[dict[str, Any]], fits: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """As many lengths, all shorter in the same proportion: the longest that fit, or the shortest there are."""
    step = min(one["n_gen"] for one in axes)
    shorter = axes
    for smaller in range((step - 1) // STEP * STEP, 0, -STEP):
        shorter = [{**one, "n_gen": one["n_gen"] * smaller // step} for one in axes]
        if all(map(fits, shorter)):
            break
    return shorter


def turn_in(cell: Cell, study: Study, models: Mapping[str, Model], room: Room) -> int:
    """A cell's priority: in a study of blocks, all first repeats of a process come before the second ones; cells at
    risk come last, the shorter ones first.
    """
    block = cell.get("process", 1) if study.blocks else MOST_BLOCKS
    risky = longest(cell) if room.is_risky(cell, models[cell["model"]]) else None
    return measuring_order(cell_id(cell), study.protocol.seed, block, risky)


def longest(cell: Cell) -> int:
    """The largest length of a cell, in tokens."""
    return int(max(cell.get("sequence") or [complete(cell)["n_gen"]]))


def _in_words(cells: Iterable[Mapping[str, Any]]) -> str:
    """``gpt2 in float32 at 128 to 768 tokens``."""
    every = list(cells)
    models, dtypes = (list(dict.fromkeys(cell[axis] for cell in every)) for axis in ("model", "dtype"))
    return f"{' and '.join(models)} in {' and '.join(dtypes)} at {_span(cell['n_gen'] for cell in every)} tokens"


def _span(numbers: Iterable[int]) -> str:
    every = sorted(set(numbers))
    return f"{every[0]}" if len(every) == 1 else f"{every[0]} to {every[-1]}"
