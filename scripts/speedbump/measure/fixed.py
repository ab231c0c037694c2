"""A decode step whose tensors all stay where they are, so that a device can repeat it without the host's Python."""

from collections.abc import Callable
from typing import Any

import torch

from speedbump.measure.cache import cache_arguments, fixed_arguments, last_logits_only, static_cache
from speedbump.measure.decode import Step

Advance = Callable[[], torch.Tensor]
"""One decode step on the buffers, token to next token. Returns the logits, shape (batch, vocabulary)."""

Prepare = Callable[[Advance, Callable[[], None], str], Advance]
"""Makes of an advance one that the host starts with less work. It is given what puts the buffers to the start,
and the device."""

RUNS_BEFORE_CAPTURE = 3
"""Libraries choose kernels and take workspace in the first runs, which a capture must not see."""


def fixed_steps(model: Any, length: int, prepare: Prepare) -> Callable[[], Step]:
    """What makes a request's step over buffers that all requests share. ``length``: as for ``steps_of``.

    The first request makes the buffers and prepares the decode step, which is a warm-up's business; prefill
    runs as ever. Raises NotImplementedError for a model that reckons positions or masks on the host.
    """
    kept: list[Fixed] = []

    def begin() -> Step:
        def step(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            if not kept:
                kept.append(Fixed(model, length, ids, prepare))
            return kept[0].step(ids)

        if kept:
            kept[0].rewind()
        return step

    return begin


class Fixed:
    """A static cache; the token to be fed next and its position; and all tokens generated, each at its position."""

    def __init__(self, model: Any, length: int, prompt: torch.Tensor, prepare: Prepare) -> None:
        """prompt: any of the shape, (batch, n_prompt), and the device of those to come."""
        batch, device = prompt.shape[0], prompt.device
        self._cache = cache = static_cache(model, length)
        if any(cache.is_sliding):
            raise NotImplementedError("a sliding window's cache counts its tokens on the host")
        self._position = position = torch.zeros(1, dtype=torch.long, device=device)
        self._token = token = torch.zeros((batch, 1), dtype=torch.long, device=device)
        self._tokens = tokens = torch.zeros((batch, length + 1), dtype=torch.long, device=device)
        for buffer in (position, token, tokens):
            torch._dynamo.mark_static_address(buffer)
        self._model, self._last_only = model, last_logits_only(model)
        keywords = self._last_only | fixed_arguments(model, cache, position, length, batch)

        def advance() -> torch.Tensor:
            logits: torch.Tensor = model(input_ids=token, use_cache=True, **keywords).logits[:, -1]
            token.copy_(logits.argmax(dim=-1, keepdim=True))
            position.add_(1)
            tokens.index_copy_(1, position, token)
            return logits

        self._advance = prepare(advance, self.rewind, device.type)
        self.rewind()

    def rewind(self) -> None:
        """To an empty cache, in place."""
        self._seen = 0
        self._cache.reset()
        self._position.zero_()

    def step(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Prefill with ids of shape (batch, n_prompt); after it one decode step a call, from the token given last."""
        if self._seen == 0:
            logits = self._fill(ids)
            self._seen = ids.shape[1]
        else:
            logits = self._advance()
            self._seen += 1
        return self._tokens[:, self._seen : self._seen + 1], logits

    def _fill(self, ids: torch.Tensor) -> torch.Tensor:
        keywords = self._last_only | cache_arguments(self._model)(self._cache, 0, ids)
        logits: torch.Tensor = self._model(input_ids=ids, use_cache=True, **keywords).logits[:, -1]
        self._token.copy_(logits.argmax(dim=-1, keepdim=True))
        self._position.fill_(ids.shape[1])
        self._tokens[:, ids.shape[1] : ids.shape[1] + 1] = self._token
        return logits


def as_it_is(advance: Advance, rewind: Callable[[], None], device: str) -> Advance:
    """The step over its buffers, started by the host as any other: what the prepared ones are held against."""
    return advance


def capture(advance: Advance, rewind: Callable[[], None], device: str) -> Advance:
    """The step as a CUDA graph: one launch, whose logits are overwritten by the next."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(RUNS_BEFORE_CAPTURE):
            rewind()
            advance()
        rewind()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = advance()

    def replay() -> torch.Tensor:
        graph.replay()
        return logits

    return replay


def compiled(advance: Advance, rewind: Callable[[], None], device: str) -> Advance:
    """The step through torch.compile, which on CUDA puts it into graphs of its own. Compiled at its first call."""
    mode = "reduce-overhead" if device == "cuda" else "default"
    return torch.compile(advance, mode=mode, dynamic=False)


PREPARE: dict[str, Prepare] = {"cuda_graph": capture, "inductor": compiled}
"""By the axis ``compile``; "none" is not prepared."""
