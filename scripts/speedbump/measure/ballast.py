"""Memory held by a process of its own, so that a measured one finds less of it."""

import mmap
import os
import threading
from collections.abc import Callable

BLOCK_BYTES = 16 << 20


def hold(size_bytes: int, report_filled: Callable[[], None]) -> None:
    """Fill so many bytes with random ones, which no system can compress, and keep them until the process is ended."""
    block = os.urandom(BLOCK_BYTES)
    held = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for offset in range(0, size_bytes, BLOCK_BYTES):
        rest = min(BLOCK_BYTES, size_bytes - offset)
        held[offset : offset + rest] = block[:rest]
    report_filled()
    threading.Event().wait()
