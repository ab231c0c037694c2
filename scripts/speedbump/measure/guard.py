"""The memory guard: a cell is stopped before it makes the machine unusable."""

from pathlib import Path

import psutil

from speedbump.grid.study import Guard

GIB = 2**30


def swap_used_bytes() -> int:
    """Swap in use on the whole machine."""
    return int(psutil.swap_memory().used)


def breach_of(guard: Guard, swap_before_bytes: int, folder: Path) -> str | None:
    """Which limit is passed, with the numbers, or None. ``folder``: where the results go."""
    swap_gb = (swap_used_bytes() - swap_before_bytes) / GIB
    if swap_gb > guard.swap_growth_gb:
        return f"swap grew by {swap_gb:.1f} GiB, the limit is {guard.swap_growth_gb:g}"
    memory_gb = psutil.virtual_memory().available / GIB
    if memory_gb < guard.free_memory_gb:
        return f"{memory_gb:.1f} GiB of memory free, the limit is {guard.free_memory_gb:g}"
    disk_gb = psutil.disk_usage(str(folder)).free / GIB
    if disk_gb < guard.free_disk_gb:
        return f"{disk_gb:.1f} GiB of disk free, the limit is {guard.free_disk_gb:g}"
    return None
