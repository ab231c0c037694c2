"""Memory held by a process of its own, so that a measured one finds less of it."""

import ctypes
import mmap
import os
import threading
from collections.abc import Callable

BLOCK_BYTES = 16 << 20


def hold(size_bytes: int, report: Callable[[str | None], None]) -> None:
    """Fill so many bytes with random ones, which no system can compress, lock them in memory, or they would be swapped
    out before the measured process feels them, and keep them until the process is ended.

    report: called once they are held, with the reason why they are not locked, or None.
    """
    block = os.urandom(BLOCK_BYTES)
    held = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for offset in range(0, size_bytes, BLOCK_BYTES):
        rest = min(BLOCK_BYTES, size_bytes - offset)
        held[offset : offset + rest] = block[:rest]
    report(lock(held))
    threading.Event().wait()


def lock(held: mmap.mmap) -> str | None:
    """Keep the pages from being swapped out; why that fails, as where the system limits what a user may lock."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    start = ctypes.addressof(ctypes.c_char.from_buffer(held))
    return os.strerror(ctypes.get_errno()) if library.mlock(start, len(held)) else None
