"""What an error means: the status of the request that it ended."""

import errno

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory")
_DEVICE_LOST = (
    "unspecified launch failure",
    "illegal memory access",
    "device-side assert",
    "device unavailable",
    "gpu has fallen off the bus",
    "uncorrectable ecc error",
    "command buffer exited with error status",
    "command buffer execution failed",
    "device was lost",
)
_UNSUPPORTED = (
    "not implemented for",
    "does not support",
    "is not supported",
    "not supported on",
    "unsupported",
    "doesn't support",
    "could not run 'aten::",
    "not currently implemented for the mps device",
)


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


def describe(error: BaseException) -> str:
    """The error on one line."""
    text = str(error) if isinstance(error, FaultError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]
