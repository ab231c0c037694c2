"""Fixed pieces of work, timed before and after a cell: when they take another time, something else changed."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch

from speedbump.measure.accelerator import Accelerator

BURSTS = 5
SIZE = {"cpu": 512, "mps": 2048, "cuda": 4096}
"""Rows of the square float32 factors."""
PRODUCTS = {"cpu": 8, "mps": 20, "cuda": 10}
"""Products in a burst: some tens of milliseconds each on the machines of today."""
DISPATCHES = {"cpu": 20_000, "mps": 5_000, "cuda": 10_000}
"""Operations on one number in a burst: the device does next to nothing, and the time is the host's to ask for them."""


def time_sentinels(accelerator: Accelerator) -> dict[str, float]:
    """``device_s`` and ``host_s``: median seconds of a burst of matrix products, which the device bounds, and of one
    of small operations, which the host bounds, as it can bound decoding. The first burst of each is not counted.

    What they took from the device is given back, so that the first request finds empty pools.
    """
    name, size = accelerator.name, SIZE[accelerator.name]
    factor, one = torch.full((size, size), 1 / size, device=name), torch.ones(1, device=name)
    times = {
        "device_s": _time_bursts(torch.matmul, factor, PRODUCTS[name], accelerator.wait),
        "host_s": _time_bursts(torch.Tensor.mul_, one, DISPATCHES[name], accelerator.wait),
    }
    del factor, one
    accelerator.empty_cache()
    return times


def _time_bursts(
    operation: Callable[[torch.Tensor, torch.Tensor], object],
    operand: torch.Tensor,
    count: int,
    wait: Callable[[], None],
) -> float:
    bursts_s = []
    for _ in range(BURSTS + 1):
        wait()
        start_s = perf_counter()
        for _ in range(count):
            operation(operand, operand)
        wait()
        bursts_s.append(perf_counter() - start_s)
    return median(bursts_s[1:])
