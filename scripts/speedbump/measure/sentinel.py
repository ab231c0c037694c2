"""A fixed piece of work, timed before and after a cell: when it takes another time, something else changed."""

from statistics import median
from time import perf_counter

import torch

from speedbump.measure.accelerator import Accelerator

BURSTS = 5
SIZE = {"cpu": 512, "mps": 2048, "cuda": 4096}
"""Rows of the square float32 factors."""
PRODUCTS = {"cpu": 8, "mps": 20, "cuda": 10}
"""Products in a burst: some tens of milliseconds each on the machines of today."""


def time_sentinel(accelerator: Accelerator) -> float:
    """Median seconds of a burst of matrix products, after one that is not counted.

    What it took from the device is given back, so that the first request finds empty pools.
    """
    factor = torch.full((SIZE[accelerator.name],) * 2, 1 / SIZE[accelerator.name], device=accelerator.name)
    bursts_s = []
    for _ in range(BURSTS + 1):
        accelerator.wait()
        start_s = perf_counter()
        for _ in range(PRODUCTS[accelerator.name]):
            factor @ factor
        accelerator.wait()
        bursts_s.append(perf_counter() - start_s)
    del factor
    accelerator.empty_cache()
    return median(bursts_s[1:])
