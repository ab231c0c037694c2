"""Processes that a cell wants beside its worker: one that holds memory, one that was there before and still is."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from speedbump.grid.axes import DEFAULTS
from speedbump.grid.cells import complete
from speedbump.grid.study import Limits
from speedbump.measure.guard import GIB
from speedbump.measure.plan import Planned
from speedbump.measure.system import read_system

Task = dict[str, Any]


def companions_of(cell: dict[str, Any], task: Task, plan: list[Planned]) -> Iterator[tuple[str, Task]]:
    """What each is called and told, in the order in which they start; each reports when it is ready, and stays.

    task: the worker's own.  The predecessor answers the cell's warm-ups, or its first request where it has none,
    and keeps what memory that has left it with.
    """
    whole = complete(cell)
    if whole["ballast_gb"]:
        yield "ballast", {"kind": "ballast", "bytes": whole["ballast_gb"] * GIB}
    if whole["predecessor"] == "running":
        answered = [planned for planned in plan if planned.phase == "warmup"] or plan[:1]
        yield "predecessor", {**task, "requests": [asdict(planned) for planned in answered], "stays": True}


def why_no_room(cell: dict[str, Any], limits: Limits) -> str | None:
    """Why the cell's ballast is not even begun, with the numbers; None where it fits, or there is none."""
    wanted_gb = complete(cell)["ballast_gb"]
    free_gb = read_system().available_bytes / GIB
    if wanted_gb and free_gb - wanted_gb < limits.guard.free_memory_gb:
        return (
            f"no room for a ballast of {wanted_gb} GiB: {free_gb:.1f} GiB of memory are free, "
            f"and the guard keeps {limits.guard.free_memory_gb:g}"
        )
    return None


def not_asked_for(cell: dict[str, Any], limits: Limits) -> str | None:
    """Which of the cell's axes touches the whole machine, and was not allowed."""
    whole = complete(cell)
    if whole["ballast_gb"] and not limits.allow_ballast:
        return 'ballast_gb takes memory from the whole machine: give the limit {"allow_ballast": true}'
    if whole["watermark"] != DEFAULTS["watermark"] and not limits.allow_watermark:
        return 'watermark moves the limit of MPS\'s allocator: give the limit {"allow_watermark": true}'
    return None


def watermark_variables(watermark: str) -> dict[str, str]:
    """Environment of an allocator with this watermark. The low one must not lie above the high one, or torch stops."""
    if watermark == DEFAULTS["watermark"]:
        return {}
    side, _, ratio = watermark.partition("_")
    variables = {f"PYTORCH_MPS_{side.upper()}_WATERMARK_RATIO": ratio}
    if side == "high" and float(ratio) < DEFAULT_LOW_RATIO:
        variables["PYTORCH_MPS_LOW_WATERMARK_RATIO"] = ratio
    return variables


DEFAULT_LOW_RATIO = 1.4
"""PyTorch's own low watermark where CPU and GPU share their memory."""
