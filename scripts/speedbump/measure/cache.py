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
        return lambda: cached(model, static_cache(model, length), arguments, last_only)
    return lambda: cached(model, DynamicCache(config=model.config), arguments, last_only)


def static_cache(model: Any, length: int) -> StaticCache:
    """An empty cache of fixed size. Raises NotImplementedError where this transformers cannot use one."""
    if model.config.model_type == "bloom" and "cache_position" in _parameters(model):
        raise NotImplementedError("transformers 4.57 sizes BLOOM's position bias to the prompt, not to a static cache")
    return StaticCache(config=model.config, max_cache_len=length)


def cached(model: Any, cache: Cache, arguments: Arguments, last_only: dict[str, int]) -> Step:
    """A step that feeds only the new tokens."""
    seen = 0

    def step(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        nonlocal seen
        output = model(input_ids=ids, use_cache=True, **last_only, **arguments(cache, seen, ids))
        seen += ids.shape[1]
        return likeliest(output.logits[:, -1])

    return step


def uncached(model: Any, last_only: dict[str, int]) -> Step:
    """A step that feeds all tokens so far again."""
    fed: list[torch.Tensor] = []

    def step(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        fed[:] = [torch.cat([*fed, ids], dim=1)]
        return likeliest(model(input_ids=fed[0], use_cache=False, **last_only).logits[:, -1])

    return step


def likeliest(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The likeliest token of each sequence, shape (batch, 1), and the logits as given, shape (batch, vocabulary)."""
    return logits.argmax(dim=-1, keepdim=True), logits


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


def fixed_arguments(model: Any, cache: Cache, position: torch.Tensor, length: int, batch: int) -> dict[str, Any]:
    """Keywords for a forward that feeds one token and says nothing of where it belongs but on the device.

    position: of the token, shape (1,), where the cache does not count for itself.  length: of the cache.
    OPT and BLOOM make a mask as long as what the cache has seen, and ask the device how long that is. They need
    not where they are given one as long as the cache; what lies ahead is masked in any model.
    """
    parameters = _parameters(model)
    given: dict[str, Any] = {"cache" if "cache" in parameters else "past_key_values": cache}
    if "cache_position" in parameters:
        given["cache_position"] = position
    if model.config.model_type in ("opt", "bloom"):
        given["attention_mask"] = torch.ones((batch, length), device=position.device)
        if "position_ids" in parameters:
            given["position_ids"] = position[None]
    return given


def _parameters(model: Any) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(model.forward).parameters
