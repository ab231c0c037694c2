"""A device as the instrument needs it: how to wait for it, what it holds, how to empty its pools."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from speedbump.measure import mps


@dataclass(frozen=True)
class Accelerator:
    """Functions of one device. Counters are None on a CPU, which has none of its own."""

    name: str
    is_available: Callable[[], bool]
    wait: Callable[[], None]
    empty_cache: Callable[[], None]
    current_bytes: Callable[[], int | None]
    driver_bytes: Callable[[], int | None]
    limit_bytes: Callable[[], int | None]


def open_accelerator(name: str) -> Accelerator:
    """The device of that name. It is not touched yet."""
    if name == "mps":
        return Accelerator(
            name,
            mps.is_available,
            mps.synchronize,
            mps.empty_cache,
            mps.current_bytes,
            mps.driver_bytes,
            mps.recommended_bytes,
        )
    if name == "cuda":
        return Accelerator(
            name,
            torch.cuda.is_available,
            torch.cuda.synchronize,
            torch.cuda.empty_cache,
            torch.cuda.memory_allocated,
            torch.cuda.memory_reserved,
            lambda: torch.cuda.get_device_properties(0).total_memory,
        )
    return Accelerator(name, lambda: True, _nothing, _nothing, _nothing, _nothing, _nothing)


PROBE_VALUES = 4 << 20
"""Of float32: 16 MiB. From 10 MiB on PyTorch's MPS allocator takes a heap of its own (``kXLargeHeap`` in
MPSAllocator.h), which macOS virtual machines refuse where a few numbers still find room in an earlier one."""


def fault_of(name: str) -> str | None:
    """Why the device does not compute, or None: with 16 MiB on it, a sum, the place of its largest value, and a product
    must come out right. The memory is given back.

    ``is_available`` is not asked alone: it says yes in macOS virtual machines where nothing can be allocated.
    """
    accelerator = open_accelerator(name)
    try:
        if not accelerator.is_available():
            return f"torch {torch.__version__} sees no {name} device"
        left = torch.arange(6, dtype=torch.float32, device=name).reshape(2, 3)
        product = (left @ left.T).tolist()
        values = torch.zeros(PROBE_VALUES, dtype=torch.float32, device=name)
        values[-2] = 3.0
        total = values + values
        largest = [int(total.argmax()), float(total[-2])]
        del values, total
        accelerator.empty_cache()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if product != [[5.0, 14.0], [14.0, 50.0]]:
        return f"a product of small numbers came out as {product}"
    expected = [PROBE_VALUES - 2, 6.0]
    return None if largest == expected else f"place and largest value of a sum came out as {largest}, not {expected}"


def _nothing() -> None:
    return None
