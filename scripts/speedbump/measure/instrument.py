"""What is observed while a request runs. One series never mixes two instruments."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

import torch

from speedbump.measure.decode import Observe
from speedbump.measure.memory import Counters


@dataclass(frozen=True)
class Instrument:
    """An observer and what it has written down: ends of steps, and memory samples, on ``perf_counter``'s clock."""

    observe: Observe
    step_ends_s: list[float] = field(default_factory=list)
    samples: list[tuple[float, Counters]] = field(default_factory=list)


def prepare_instrument(name: str, wait: Callable[[], None], read_memory: Callable[[], Counters]) -> Instrument:
    """A new instrument for one request.

    free_running: nothing.  step_sync: the token is read on the host and the device synchronised.
    per_step: the same, and the time kept.  memory: the same, and the memory counters kept.
    """

    def read_token(token: torch.Tensor) -> None:
        token.tolist()
        wait()

    def read_token_and_clock(token: torch.Tensor) -> None:
        read_token(token)
        ends_s.append(perf_counter())

    def read_token_and_memory(token: torch.Tensor) -> None:
        read_token(token)
        samples.append((perf_counter(), read_memory()))

    ends_s: list[float] = []
    samples: list[tuple[float, Counters]] = []
    observers: dict[str, Observe] = {
        "free_running": lambda token: None,
        "step_sync": read_token,
        "per_step": read_token_and_clock,
        "memory": read_token_and_memory,
    }
    return Instrument(observers[name], ends_s, samples)
