"""What an error means: the status of the request that it ended."""

import errno
import re

_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "not enough memory",
    "cannot allocate memory",
    "insufficient memory",
    "invalid buffer size",
)
"""The last is MPSAllocator's word for a buffer larger than Metal makes."""
_DEVICE_LOST = (
    "unspecified launch failure",
    "illegal memory access",
    "device-side assert",
    "device unavailable",
    "gpu has fallen off the bus",
    "uncorrectable ecc error",
    "command buffer exited with error status",
    "command buffer execution failed",
    "execution of the command buffer was aborted",
    "kiogpucommandbuffer",
    "kioaccelcommandbuffer",
    "device was lost",
)
_UNSUPPORTED = (
    "not implemented for",
    "does not support",
    "is not supported",
    "not supported on",
    "is only supported on",
    "invalid low watermark ratio",
    "invalid high watermark ratio",
    "unsupported",
    "doesn't support",
    "could not run 'aten::",
    "not currently implemented for the mps device",
)

_GPU_FAULT = re.compile(
    r"command buffer exited with error status|Execution of the command buffer was aborted"
    r"|kIO(?:GPU|Accel)CommandBuffer\w*",
    re.IGNORECASE,
)
_GPU_REASON = re.compile(r"((?:[^.\n:()]*\([^()\n]*\))?[^.\n:()]*\([^()\n]*:kIO(?:GPU|Accel)CommandBuffer\w+\))")


class FaultError(Exception):
    """A failure whose status is known."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def status_of(error: BaseException) -> str:
    """One of ``tables.STATUSES``. PyTorch raises RuntimeError for nearly everything, so its words decide."""
    if isinstance(error, FaultError):
        return error.status
    text = f"{type(error).__name__}: {error}".lower()
    if isinstance(error, MemoryError) or "outofmemory" in text or any(words in text for words in _OUT_OF_MEMORY):
        return "out_of_memory"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "disk_full"
    if any(words in text for words in _DEVICE_LOST):
        return "device_lost"
    if isinstance(error, ImportError):
        return "import_error"
    if isinstance(error, NotImplementedError) or any(words in text for words in _UNSUPPORTED):
        return "unsupported"
    return "failed"


def gpu_fault(printed: str) -> tuple[str, str] | None:
    """Status and message of a GPU fault in what a worker printed, or None.

    PyTorch asks no command buffer for its status (MPSStream.mm, ``checkLastError`` reads another buffer), so one that
    failed raises nothing: Metal prints it, the request ends, often too early, and its numbers are anything.
    """
    found = _GPU_FAULT.search(printed)
    if found is None:
        return None
    reason = _GPU_REASON.search(printed)
    words = " ".join((reason[1] if reason else found[0]).split())
    lowered = words.lower()
    no_memory = "outofmemory" in lowered or "insufficient memory" in lowered
    status = "out_of_memory" if no_memory else "device_lost"
    return status, f"a GPU command failed unnoticed by torch: {words}"[:500]


def describe(error: BaseException) -> str:
    """The error on one line."""
    text = str(error) if isinstance(error, FaultError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]
