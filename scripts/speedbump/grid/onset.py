"""Where the allocator-pool hypothesis expects the slow regime to begin: arithmetic, not a measurement.

The hypothesis: on MPS a growing KV cache asks for a buffer of a new size at every step, the allocator keeps one
of each size, and latency jumps once these buffers and the weights outgrow a share of the machine's memory.
"""

from collections.abc import Callable
from dataclasses import dataclass

from speedbump.grid.models import Model, memory_need

GIB = 2**30
SHARES = (29.7 / 36, 31.26 / 36)
"""Bounds on the share of the memory at which latency jumps: the largest need that the paper saw fast and the smallest
that it saw slow on a 36 GB M3 Max. Chosen on those figures, so that their agreement is not a test."""
WATERMARK = 1.7
"""The allocator's default high watermark, times the working set that Metal recommends, at which it is thought to give
its unused buffers back (``MPSAllocator.h``)."""
LARGE_BYTES = 36 * GIB
"""From this memory on Metal recommends three quarters, below it two thirds: as reported of Macs with 8 to 128 GB under
macOS 12 to 15. macOS 26 and ``iogpu.wired_limit_mb`` give more."""

KNOWN_MISSES = (
    "GPT-2 Medium with a prompt of 3 recovers at 640 tokens, where the formula still expects it slow",
    "BLOOM-560M is slow at 640 tokens, where the purge is expected to have made it fast",
    "DistilGPT-2 is slow at 640 tokens on an 18 GB M3 Pro, where the formula expects it fast throughout",
    "four of the five published onsets lie in brackets 11 to 17 GiB wide, and three of the models have equal sizes: "
    "that they agree is weak evidence",
)


@dataclass(frozen=True)
class Onset:
    """last_normal: largest budget expected normal.  first_slow: smallest expected slow; None beyond ``longest``.
    Between the two the hypothesis does not say.  recovery: smallest at which a purge is expected; None beyond
    ``longest``.  longest: largest budget that the model's positions leave, or that was asked about.
    """

    last_normal: int
    first_slow: int | None
    recovery: int | None
    longest: int


def assumed_recommended(memory_bytes: float) -> float:
    """Bytes of the working set that Metal is thought to recommend, where no run has recorded it."""
    return memory_bytes * (3 / 4 if memory_bytes >= LARGE_BYTES else 2 / 3)


def is_predicted(device: str, kv_cache: str) -> bool:
    """Whether the hypothesis says anything: it is about the MPS allocator and a cache of tensors."""
    return device == "mps" and kv_cache in ("dynamic", "static")


def predict_onset(
    model: Model,
    dtype: str,
    n_prompt: int,
    memory_bytes: float,
    kv_cache: str = "dynamic",
    batch: int = 1,
    *,
    thresholds: tuple[float, float] | None = None,
    recommended_bytes: float | None = None,
    longest: int | None = None,
) -> Onset:
    """The onset on an MPS device with so much memory.

    thresholds: bytes, for a machine whose own are known; SHARES of the memory when left out.
    recommended_bytes: the working set that Metal recommends there; assumed_recommended when left out.
    longest: largest budget of interest where the model has no limit of its own (default 8192).
    Raises ValueError when the prompt leaves the model no position.
    """
    limit = (longest or 8192) if model.positions is None else model.positions - n_prompt
    if limit < 1:
        raise ValueError(f"{model.title} has {model.positions} positions: a prompt of {n_prompt} leaves none")
    low, high = thresholds or tuple(share * memory_bytes for share in SHARES)

    def need(n_gen: int) -> int:
        return memory_need(model, dtype, "mps", n_prompt, n_gen, kv_cache, batch)

    purge_bytes = WATERMARK * (recommended_bytes or assumed_recommended(memory_bytes))
    beyond_low = _first_beyond(need, low, limit)
    return Onset(
        last_normal=limit if beyond_low is None else beyond_low - 1,
        first_slow=_first_beyond(need, high, limit),
        recovery=_first_beyond(need, purge_bytes, limit),
        longest=limit,
    )


def _first_beyond(need: Callable[[int], int], threshold: float, limit: int) -> int | None:
    """Smallest budget that needs more than the threshold, by bisection; None when none up to the limit does."""
    if need(limit) <= threshold:
        return None
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if need(middle) > threshold else (middle, high)
    return high
