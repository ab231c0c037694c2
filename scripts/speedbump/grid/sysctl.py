"""What the macOS kernel says of itself, by ``sysctlbyname``: no root, no process started, and never a cached answer.

``host_statistics64``, which psutil asks, is rate-limited for programs that are not Apple's: after a few calls within a
second, all programs together, the kernel repeats its last answer (xnu, osfmk/kern/host.c).
"""

import ctypes
import struct
from functools import cache
from typing import Any


def read_bytes(name: str) -> bytes | None:
    """The value of a name such as ``hw.model``; None where the system has none, or no ``sysctlbyname``."""
    ask = _function()
    size = ctypes.c_size_t(0)
    if ask is None or ask(name.encode(), None, ctypes.byref(size), None, 0):
        return None
    value = ctypes.create_string_buffer(max(size.value, 1))
    if ask(name.encode(), value, ctypes.byref(size), None, 0):
        return None
    return value.raw[: size.value]


def read_text(name: str) -> str | None:
    """A value that is text."""
    value = read_bytes(name)
    return None if value is None else value.split(b"\0")[0].decode(errors="replace").strip()


def read_int(name: str) -> int | None:
    """A value that is a whole number, of four or eight bytes."""
    value = read_bytes(name)
    return int.from_bytes(value, "little") if value is not None and len(value) in (4, 8) else None


def read_swap_bytes() -> int | None:
    """Swap in use: ``xsu_used`` of ``struct xsw_usage`` in <sys/sysctl.h>."""
    value = read_bytes("vm.swapusage")
    if value is None or len(value) < _XSW_USAGE.size:
        return None
    _total, _free, used, _page_size, _encrypted = _XSW_USAGE.unpack_from(value)
    return int(used)


_XSW_USAGE = struct.Struct("=QQQIi")


@cache
def _function() -> Any:
    """The C library's function, or None. On Linux there is none, and elsewhere in BSD the names differ."""
    function = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    if function is not None:
        size = ctypes.POINTER(ctypes.c_size_t)
        function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, size, ctypes.c_void_p, ctypes.c_size_t)
        function.restype = ctypes.c_int
    return function
