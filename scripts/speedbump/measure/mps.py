"""Every name of ``torch.mps`` that Speedbump uses, and no other."""

from contextlib import AbstractContextManager

import torch


def is_available() -> bool:
    """Whether macOS shows a Metal device; in a virtual machine it may still refuse every allocation."""
    return bool(torch.mps.is_available())


def synchronize() -> None:
    """Return when the device has done all it was given."""
    torch.mps.synchronize()


def empty_cache() -> None:
    """Give the allocator's unused buffers back to the system."""
    torch.mps.empty_cache()


def current_bytes() -> int:
    """Held by live tensors."""
    return int(torch.mps.current_allocated_memory())


def driver_bytes() -> int:
    """Held from the Metal driver: live tensors, the allocator's pools and MPSGraph's buffers."""
    return int(torch.mps.driver_allocated_memory())


def recommended_bytes() -> int:
    """What Metal recommends as the working set at most; the watermark ratios multiply it."""
    return int(torch.mps.recommended_max_memory())


def start_signposts() -> None:
    """From now on every operation is marked for Xcode's Instruments, with its time on the GPU."""
    torch.mps.profiler.start("interval,event")


def stop_signposts() -> None:
    """Mark no more."""
    torch.mps.profiler.stop()


def can_capture() -> bool:
    """Whether Metal calls can be captured: since torch 2.7, and with MTL_CAPTURE_ENABLED=1 set."""
    return bool(torch.mps.profiler.is_metal_capture_enabled())


def capture(name: str) -> AbstractContextManager[None]:
    """Captures Metal calls into ``<number>-<name>.gputrace`` in the current folder."""
    return torch.mps.profiler.metal_capture(name)
