"""How keys and values are kept, and how each transformers version is told: the one adapter."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, StaticCache

from speedbump.measure.decode import Step

Arguments = Callable[[Cache, int, torch.Tensor], dict[str, Any]]
"""Keywords for a forward with a cache that has seen so many tokens, and new ids of shape (batch, tokens)."""


def steps_of(model: Any, kv_cache: str, length: int) -> Callable[[], Step]:
    """What makes a request's step. ``length``: tokens that the cache must hold at the end of the request.

    Raises NotImplementedError where this version of transformers has no such cache for the model.
    """
    last_only = last_logits_only(model)
    arguments = cache_arguments(model)
    if kv_cache == "off":
        return lambda: uncached(model, last_only)
    if kv_cache == "static":
        if model.config.model_type == "bloom" and "cache_position" in _parameters(model):
            raise NotImplementedError(
                "transformers 4.57 sizes BLOOM's position bias to the prompt, not to a static cache"
            )
        return lambda: cached(model, StaticCache(config=model.config, max_cache_len=length), arguments, last_only)
    return lambda: cached(model, DynamicCache(config=model.config), arguments, last_only)


def cached(model: Any, cache: Cache, arguments: Arguments, last_only: dict[str, int]) -> Step:
    """A step that feeds only the new tokens."""
    seen = 0

    def step(ids: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        output = model(input_ids=ids, use_cache=True, **last_only, **arguments(cache, seen, ids))
        seen += ids.shape[1]
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    return step


def uncached(model: Any, last_only: dict[str, int]) -> Step:
    """A step that feeds all tokens so far again."""
    fed: list[torch.Tensor] = []

    def step(ids: torch.Tensor) -> torch.Tensor:
        fed[:] = [torch.cat([*fed, ids], dim=1)]
        logits: torch.Tensor = model(input_ids=fed[0], use_cache=False, **last_only).logits[:, -1]
        return logits

    return step


def last_logits_only(model: Any) -> dict[str, int]:
    """The keyword that asks for the last token's logits alone; BLOOM has none in transformers 4.57."""
    return {"logits_to_keep": 1} if "logits_to_keep" in _parameters(model) else {}


def cache_arguments(model: Any) -> Arguments:
    """How this version of transformers takes a cache.

    4.57 wants the new tokens' positions as well: without them a static cache counts its filled slots on
    the device, and the host waits for the answer. 5.x counts for itself, and came to call the cache ``cache``.
    """
    parameters = _parameters(model)
    if "cache" in parameters:
        return lambda cache, seen, ids: {"cache": cache}
    if "cache_position" in parameters:
        return lambda cache, seen, ids: {
            "past_key_values": cache,
            "cache_position": torch.arange(seen, seen + ids.shape[1], device=ids.device),
        }
    return lambda cache, seen, ids: {"past_key_values": cache}


def _parameters(model: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(model.forward).parameters
