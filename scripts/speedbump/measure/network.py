"""The model as a torch module: random weights made fast, or its own weights."""

import math
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModelForCausalLM

BLOCK = 1_000_003
"""Random values drawn once and repeated; a prime, so that no two rows of a matrix are alike."""
GAIN = 3.0
"""Standard deviation of a matrix, times the square root of its row's length."""
EMBEDDING = 0.01
"""Standard deviation of embeddings: small, or the most likely token after each is itself where the head is tied."""


def build_random(architecture: dict[str, Any], dtype: str, attention: str, device: str, seed: int) -> Any:
    """A model with seeded random weights, equal on every device and under every version of transformers.

    Matrices are filled from one block of normal values, whose scale keeps every layer's output near unit
    size: greedy decoding then gives varied tokens, and float16 does not overflow. Vectors are what makes
    norms the identity: ones (or zeros, where the model adds the one itself), and zero biases.
    """
    keywords = {k: v for k, v in architecture.items() if k != "model_type"}
    config = AutoConfig.for_model(architecture["model_type"], **keywords)
    asked = {} if attention == "auto" else {"attn_implementation": attention}
    with _WithoutFilling(), torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype), **asked)
    _fill(model, seed)
    return model.eval()


def build_pretrained(
    source: dict[str, str | None], architecture: dict[str, Any], dtype: str, attention: str, device: str
) -> Any:
    """A model with its own weights: safetensors of the hub or of a folder, or a GGUF file. Its code is never run.

    Raises ValueError when the weights are of other sizes than the model's file says.
    """
    keywords: dict[str, Any] = {"dtype": getattr(torch, dtype), "trust_remote_code": False}
    if attention != "auto":
        keywords["attn_implementation"] = attention
    if source["gguf"]:
        file = Path(source["gguf"]).expanduser()
        model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, **keywords)
    elif source["folder"]:
        folder = Path(source["folder"]).expanduser()
        model = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True, **keywords)
    else:
        keywords["revision"] = source["revision"]
        model = AutoModelForCausalLM.from_pretrained(source["hub"], use_safetensors=True, **keywords)
    for key, told in architecture.items():
        found = getattr(model.config, key, told)
        if isinstance(told, int) and found != told:
            raise ValueError(f"architecture.{key}: the weights have {found}, the model's file says {told}")
    return model.to(device).eval()


class _WithoutFilling(TorchFunctionMode):
    """While a model is made, its random initialisation does nothing: it would cost seconds and be overwritten."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _RANDOM_FILLS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


_RANDOM_FILLS = {
    *("normal_", "uniform_", "trunc_normal_"),
    *("kaiming_normal_", "kaiming_uniform_", "xavier_normal_", "xavier_uniform_", "orthogonal_"),
}
"""Of ``torch.Tensor`` and ``torch.nn.init``."""


@torch.no_grad()
def _fill(model: torch.nn.Module, seed: int) -> None:
    block = torch.randn(BLOCK, generator=torch.Generator().manual_seed(seed))
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    offset = 0
    for name, parameter in model.named_parameters():
        if parameter.dim() < 2:
            if name.endswith("bias"):
                parameter.zero_()
            continue
        deviation = EMBEDDING if id(parameter) in embeddings else GAIN / math.sqrt(parameter.shape[-1])
        scaled = (block * deviation).to(parameter.dtype).to(parameter.device)
        flat = parameter.view(-1)
        head = min(BLOCK - offset, flat.numel())
        flat[:head] = scaled[offset : offset + head]
        whole = (flat.numel() - head) // BLOCK * BLOCK
        flat[head : head + whole].view(-1, BLOCK).copy_(scaled.expand(whole // BLOCK, -1))
        rest = flat.numel() - head - whole
        flat[head + whole :] = scaled[:rest]
        offset = (offset + flat.numel()) % BLOCK
