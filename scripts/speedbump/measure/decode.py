"""The decode loop: everything that is timed, and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch

Step = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Token ids, shape (batch, tokens), to the token likeliest after them, shape (batch, 1), and the last of their
logits, shape (batch, vocabulary)."""

Observe = Callable[[torch.Tensor], None]
"""What the instrument does after each step with its token ids, shape (batch, 1)."""


@dataclass(frozen=True)
class Generation:
    """What one request gave.

    tokens: ids, shape (batch, n_gen), on the device.  logits: of the last step, shape (batch, vocabulary).
    start_s: on ``perf_counter``'s clock.  ttft_s: to the first token.  e2e_s: to the last, device synchronised.
    """

    tokens: torch.Tensor
    logits: torch.Tensor
    start_s: float
    ttft_s: float
    e2e_s: float


def decode(
    begin: Callable[[], Step], prompt: torch.Tensor, n_gen: int, observe: Observe, wait: Callable[[], None]
) -> Generation:
    """Greedy decoding of exactly ``n_gen`` tokens: the first comes from the prompt, n_gen - 1 from decode steps.

    begin: makes a step with an empty cache.  prompt: ids, shape (batch, n_prompt).
    wait: returns when the device has done all it was given. It is called before the request, after the
    first token and after the last; what is asked of the device in between is the instrument's choice.
    """
    wait()
    start_s = perf_counter()
    step = begin()
    token, logits = step(prompt)
    wait()
    ttft_s = perf_counter() - start_s
    observe(token)
    tokens = [token]
    for _ in range(n_gen - 1):
        token, logits = step(token)
        observe(token)
        tokens.append(token)
    wait()
    e2e_s = perf_counter() - start_s
    return Generation(torch.cat(tokens, dim=1), logits, start_s, ttft_s, e2e_s)
