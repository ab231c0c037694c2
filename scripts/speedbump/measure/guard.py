"""The memory guard: a cell is stopped before it makes the machine unusable."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from speedbump.grid.study import Guard
from speedbump.measure.system import CRITICAL, WARNING, Memory, read_stalled, read_system

GIB = 2**30
MOST_SWAP_GB = 4.0
SWAP_SHARE = 1 / 8
"""Swap may grow by so much of the memory, and by MOST_SWAP_GB at most, where the study says nothing else."""
MOST_STALLED = 0.5
"""Share of ten seconds in which every process waited for memory: the machine does nothing else then."""


def swap_limit_gb(guard: Guard, memory: Memory) -> float:
    """By how many GiB swap may grow: the study's word, else an eighth of the memory, 4 GiB at most."""
    return guard.swap_growth_gb or min(MOST_SWAP_GB, SWAP_SHARE * memory.total_bytes / GIB)


@dataclass
class Watch:
    """Looks at the machine while a cell is measured.

    before: its memory when the cell began.  folder: where the results go.  swap_peak_bytes: most swap growth seen.
    read, stalled, clock: of the machine's memory, of the share of time that all waited for it, and of seconds that
    never go back.
    """

    guard: Guard
    before: Memory
    folder: Path
    read: Callable[[], Memory] = read_system
    stalled: Callable[[], float | None] = read_stalled
    clock: Callable[[], float] = time.monotonic
    swap_peak_bytes: int = 0
    _warned_s: float | None = field(default=None, init=False)

    def breach(self) -> str | None:
        """Which limit is passed, with the numbers, or None."""
        memory = self.read()
        self.swap_peak_bytes = max(self.swap_peak_bytes, memory.swap_bytes - self.before.swap_bytes)
        return self._pressure(memory) or self._room(memory)

    def calm(self) -> None:
        """A request is over: a warning that lasts is counted anew."""
        self._warned_s = None

    def _pressure(self, memory: Memory) -> str | None:
        """What the system itself says. macOS warns for hours on a machine that is full and works, so a warning must
        last within one request; it is critical when the system begins to end programs.
        """
        if memory.pressure == CRITICAL:
            return "macOS says that memory pressure is critical"
        if memory.pressure != WARNING:
            self._warned_s = None
        else:
            self._warned_s = self.clock() if self._warned_s is None else self._warned_s
            lasted_s = self.clock() - self._warned_s
            if lasted_s > self.guard.warning_s:
                return (
                    f"macOS has warned of memory pressure for {lasted_s:.0f} s, the limit is {self.guard.warning_s:g}"
                )
        stalled = self.stalled()
        if stalled is not None and stalled > MOST_STALLED:
            return f"all processes waited for memory {stalled:.0%} of the last 10 s, the limit is {MOST_STALLED:.0%}"
        return None

    def _room(self, memory: Memory) -> str | None:
        swap_gb = (memory.swap_bytes - self.before.swap_bytes) / GIB
        limit_gb = swap_limit_gb(self.guard, memory)
        if swap_gb > limit_gb:
            return f"swap grew by {swap_gb:.1f} GiB, the limit is {limit_gb:g}"
        memory_gb = memory.available_bytes / GIB
        if memory_gb < self.guard.free_memory_gb:
            return f"{memory_gb:.1f} GiB of memory free, the limit is {self.guard.free_memory_gb:g}"
        disk_gb = psutil.disk_usage(str(self.folder)).free / GIB
        if disk_gb < self.guard.free_disk_gb:
            return f"{disk_gb:.1f} GiB of disk free, the limit is {self.guard.free_disk_gb:g}"
        return None
