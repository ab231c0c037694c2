"""Memory as the device, the process and the machine count it."""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache

import psutil

from speedbump.measure.system import read_system

Counters = dict[str, int | None]
"""The memory columns of the tables, in bytes; None where this system has no such counter."""


def read_memory(current_bytes: Callable[[], int | None], driver_bytes: Callable[[], int | None]) -> Counters:
    """All counters at once. The two arguments read the accelerator's."""
    system = read_system()
    return {
        "torch_current_bytes": current_bytes(),
        "torch_driver_bytes": driver_bytes(),
        "rss_bytes": psutil.Process().memory_info().rss,
        "footprint_bytes": footprint_bytes(),
        "system_used_bytes": system.total_bytes - system.available_bytes,
        "swap_used_bytes": system.swap_bytes,
    }


class _RusageInfoV0(ctypes.Structure):
    """``struct rusage_info_v0`` of macOS's <sys/resource.h>."""

    _fields_ = (
        ("ri_uuid", ctypes.c_uint8 * 16),
        ("ri_user_time", ctypes.c_uint64),
        ("ri_system_time", ctypes.c_uint64),
        ("ri_pkg_idle_wkups", ctypes.c_uint64),
        ("ri_interrupt_wkups", ctypes.c_uint64),
        ("ri_pageins", ctypes.c_uint64),
        ("ri_wired_size", ctypes.c_uint64),
        ("ri_resident_size", ctypes.c_uint64),
        ("ri_phys_footprint", ctypes.c_uint64),
        ("ri_proc_start_abstime", ctypes.c_uint64),
        ("ri_proc_exit_abstime", ctypes.c_uint64),
    )


def footprint_bytes(pid: int | None = None) -> int | None:
    """The physical footprint of a process as macOS's Activity Monitor shows it; None elsewhere, or when it is gone.

    pid: of this user's processes; this one's unless given. Resident memory misses what the GPU holds, and what was
    compressed or swapped out. Source: ``proc_pid_rusage`` in <libproc.h>.
    """
    if sys.platform != "darwin":
        return None
    info = _RusageInfoV0()
    failed = _libproc().proc_pid_rusage(pid or os.getpid(), 0, ctypes.byref(info))
    return None if failed else int(info.ri_phys_footprint)


@cache
def _libproc() -> ctypes.CDLL:
    return ctypes.CDLL("/usr/lib/libproc.dylib")
