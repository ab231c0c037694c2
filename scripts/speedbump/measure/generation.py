"""The same request through transformers' ``generate()``, which is what people run."""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
from transformers import GenerationConfig, StoppingCriteriaList
from transformers.generation.logits_process import LogitsProcessorList

from speedbump.measure.decode import Generation, Observe


def prepare_generate(model: Any, kv_cache: str, n_gen: int) -> None:
    """Make ``generate()`` greedy, of exactly ``n_gen`` tokens, deaf to end tokens, and never compiled.

    The model's own generation settings are replaced, because ``generate()`` fills what is None from them.
    """
    model.generation_config = GenerationConfig(
        max_new_tokens=n_gen,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        use_cache=kv_cache != "off",
        cache_implementation="static" if kv_cache == "static" else None,
        disable_compile=True,
    )


def generate(model: Any, prompt: torch.Tensor, observe: Observe, wait: Callable[[], None]) -> Generation:
    """One request. The time to the first token is taken at the stopping criterion's first call.

    prompt: ids, shape (batch, n_prompt).  The rest as ``decode``.
    """
    first_s: list[float] = []
    last_logits: list[torch.Tensor] = []

    def keep_logits(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        last_logits[:] = [logits]
        return logits

    def observe_and_go_on(ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        if not first_s:
            wait()
            first_s.append(perf_counter())
        observe(ids[:, -1:])
        return going_on

    going_on = torch.zeros(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    attention_mask = torch.ones_like(prompt)
    wait()
    start_s = perf_counter()
    ids = model.generate(
        prompt,
        attention_mask=attention_mask,
        logits_processor=LogitsProcessorList([keep_logits]),
        stopping_criteria=StoppingCriteriaList([observe_and_go_on]),
    )
    wait()
    e2e_s = perf_counter() - start_s
    return Generation(ids[:, prompt.shape[1] :], last_logits[0], start_s, first_s[0] - start_s, e2e_s)
