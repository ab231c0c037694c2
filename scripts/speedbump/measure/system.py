"""The memory of the whole machine at one moment: what the guard looks at, and what the tables call system and swap."""

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from speedbump.grid.sysctl import read_int, read_swap_bytes

NORMAL, WARNING, CRITICAL = 1, 2, 4
"""``kern.memorystatus_vm_pressure_level`` of macOS: green, yellow and red in Activity Monitor."""

_PRESSURE_FILE = Path("/proc/pressure/memory")
_RECLAIMABLE = ("vm.page_free_count", "vm.page_pageable_external_count", "vm.page_purgeable_count")
"""Pages that macOS can hand out without compressing or swapping: free, file-backed (those read ahead among them), and
those that their owner gave up. Activity Monitor's "memory used" is all the others. psutil's ``available`` has the
inactive ones in their place, which may be anything that nobody has touched for a while."""


@dataclass(frozen=True)
class Memory:
    """total, available, swap: bytes.  pressure: NORMAL, WARNING or CRITICAL; None where the system is not macOS."""

    total_bytes: int
    available_bytes: int
    swap_bytes: int
    pressure: int | None = None


def read_system() -> Memory:
    """The machine's memory now. On macOS without ``host_statistics64``, which repeats old answers."""
    if sys.platform == "darwin" and (read := _read_macos()):
        return read
    memory = psutil.virtual_memory()
    return Memory(memory.total, memory.available, psutil.swap_memory().used)


def _read_macos() -> Memory | None:
    """None where the kernel lacks one of the names."""
    total, swap = read_int("hw.memsize"), read_swap_bytes()
    pages = [read_int(name) for name in _RECLAIMABLE]
    if total is None or swap is None or None in pages:
        return None
    available = sum(count for count in pages if count is not None) * resource.getpagesize()
    return Memory(total, min(available, total), swap, pressure=read_int("kern.memorystatus_vm_pressure_level"))


def read_stalled() -> float | None:
    """Share of the last ten seconds in which every process that had work waited for memory: ``full avg10`` of Linux's
    pressure stall information. None where the kernel does not count it.
    """
    try:
        return parse_stalled(_PRESSURE_FILE.read_text())
    except OSError:
        return None


def parse_stalled(text: str) -> float | None:
    """From a line such as ``full avg10=12.50 avg60=3.00 avg300=0.10 total=123``; None without one."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["full"] and len(words) > 1 and words[1].startswith("avg10="):
            return float(words[1].removeprefix("avg10=")) / 100
    return None
