"""How keys and values are kept, and how each transformers version is told: the one adapter."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, StaticCache

from speedbump.measure.decode import Step


def steps_of(model: Any, kv_cache: str, length: int) -> Callable[[], Step]:
    """What makes a request's step. ``length``: tokens that the cache must hold at the end of the request."""
    if kv_cache == "off":
        return lambda: uncached(model)
    if kv_cache == "static":
        return lambda: cached(model, StaticCache(config=model.config, max_cache_len=length))
    return lambda: cached(model, DynamicCache(config=model.config))


def cached(model: Any, cache: Cache) -> Step:
    """A step that feeds only the new tokens."""
    arguments = cache_arguments(model)
    seen = 0

    def step(ids: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        output = model(input_ids=ids, use_cache=True, logits_to_keep=1, **arguments(cache, seen, ids))
        seen += ids.shape[1]
        last: torch.Tensor = output.logits[:, -1]
        return last

    return step


def uncached(model: Any) -> Step:
    """A step that feeds all tokens so far again."""
    fed: list[torch.Tensor] = []

    def step(ids: torch.Tensor) -> torch.Tensor:
        fed[:] = [torch.cat([*fed, ids], dim=1)]
        last: torch.Tensor = model(input_ids=fed[0], use_cache=False, logits_to_keep=1).logits[:, -1]
        return last

    return step


def cache_arguments(model: Any) -> Callable[[Cache, int, torch.Tensor], dict[str, Any]]:
    """The keywords by which the model's forward takes a cache that has seen so many tokens, with new ids.

    transformers 4.57 wants the new tokens' positions as well: without them a static cache counts its
    filled slots on the device, and the host waits for the answer. 5.x counts for itself, and came to
    call the cache ``cache``.
    """
    parameters = inspect.signature(model.forward).parameters
    if "cache" in parameters:
        return lambda cache, seen, ids: {"cache": cache}
    if "cache_position" in parameters:
        return lambda cache, seen, ids: {
            "past_key_values": cache,
            "cache_position": torch.arange(seen, seen + ids.shape[1], device=ids.device),
        }
    return lambda cache, seen, ids: {"past_key_values": cache}
