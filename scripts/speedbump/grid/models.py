"""The models that can be measured: small YAML files, read and checked without torch."""

import difflib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError, model_validator

from speedbump.grid.listing import visible

BYTES_PER_VALUE = {"float32": 4, "float16": 2, "bfloat16": 2}

_USUAL = {
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "hidden": "hidden_size",
    "vocabulary": "vocab_size",
    "positions": "max_position_embeddings",
}
_FAMILIES = {
    "gpt2": {
        "layers": "n_layer",
        "heads": "n_head",
        "hidden": "n_embd",
        "vocabulary": "vocab_size",
        "positions": "n_positions",
    },
    "bloom": {"layers": "n_layer", "heads": "n_head", "hidden": "hidden_size", "vocabulary": "vocab_size"},
    "opt": {k: v for k, v in _USUAL.items() if k not in ("kv_heads", "head_dim")},
}
"""What transformers' configuration classes call the numbers that Speedbump needs; others use ``_USUAL``."""

_REQUIRED = ("layers", "heads", "hidden", "vocabulary")
_OPTIONAL_KEYS = {"intermediate_size", "n_inner", "ffn_dim", "rope_theta", "rms_norm_eps", "tie_word_embeddings"}


class ModelError(Exception):
    """A model's file cannot be used; one line that names the file, the key and what would be right."""


class Pretrained(BaseModel):
    """Where a model's own weights come from: exactly one of a hub id, a folder, or a GGUF file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    hub: str | None = None
    revision: str | None = None
    folder: str | None = None
    gguf: str | None = None

    @model_validator(mode="after")
    def _one_source(self) -> "Pretrained":
        if sum(source is not None for source in (self.hub, self.folder, self.gguf)) != 1:
            raise ValueError("give exactly one of hub, folder, gguf")
        if (self.revision is None) != (self.hub is None):
            raise ValueError("revision goes with hub, so that the weights stay the same")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    title: str
    source: str | None = None
    parameters: PositiveInt | None = None
    architecture: dict[str, Any]
    pretrained: Pretrained | None = None


@dataclass(frozen=True)
class Model:
    """A model's definition.

    name: the file's stem, by which cells and reports call it.  title: for people.
    architecture: keywords of transformers' ``AutoConfig.for_model``, ``model_type`` among them.
    digest: 8 hex digits over the definition.  positions: longest prompt + budget; None where unlimited.
    layers, kv_heads, head_dim, hidden, vocabulary: sizes.  parameters: count, as published, or an
    estimate where the file gives none.  pretrained: where its own weights come from, or None.
    """

    name: str
    title: str
    architecture: dict[str, Any]
    digest: str
    positions: int | None
    layers: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    parameters: int
    pretrained: Pretrained | None


def load_models(folder: Path) -> dict[str, Model]:
    """Every ``*.yaml`` of the folder, by name. Raises ModelError."""
    paths = visible(Path(folder), "*.yaml")
    if not paths:
        raise ModelError(f"{folder}: no model files (*.yaml) here")
    return {path.stem: load_model(path) for path in paths}


def load_model(path: Path) -> Model:
    """One model's file. Raises ModelError."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ModelError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: must hold the keys title and architecture")
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        raise ModelError(f"{path}: {_first_error(error)}") from None
    _check_json(path, file.architecture)
    sizes = _sizes(path, file.architecture)
    hidden, heads, layers = sizes["hidden"], sizes["heads"], sizes["layers"]
    return Model(
        name=path.stem,
        title=file.title,
        architecture=file.architecture,
        digest=_digest(file),
        positions=sizes.get("positions"),
        layers=layers,
        kv_heads=sizes.get("kv_heads", heads),
        head_dim=sizes.get("head_dim", hidden // heads),
        hidden=hidden,
        vocabulary=sizes["vocabulary"],
        parameters=file.parameters or sizes["vocabulary"] * hidden + 12 * layers * hidden**2,
        pretrained=file.pretrained,
    )


def memory_need(
    model: Model, dtype: str, device: str, n_prompt: int, n_gen: int, kv_cache: str = "dynamic", batch: int = 1
) -> int:
    """Bytes that a cell is predicted to need: weights and KV cache.

    On MPS a growing cache counts with the sum over all its sizes and not with the last. That is the
    hypothesis that the allocator's pool keeps one buffer of each size; nobody has confirmed it yet.
    """
    value_bytes = BYTES_PER_VALUE[dtype]
    token_bytes = 2 * model.layers * model.kv_heads * model.head_dim * value_bytes * batch
    longest = n_prompt + n_gen - 1
    tokens = longest if kv_cache != "off" else 0
    if device == "mps" and kv_cache == "dynamic":
        tokens = (longest * (longest + 1) - n_prompt * (n_prompt + 1)) // 2 or longest  # n_prompt + 1 to longest
    return model.parameters * value_bytes + token_bytes * tokens


def _check_json(path: Path, architecture: dict[str, Any]) -> None:
    """The digest and the worker take an architecture as JSON, which has no dates, sets or infinities, as YAML has."""
    for key, value in architecture.items():
        try:
            json.dumps(value, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ModelError(f"{path}: architecture.{key}: cannot be written as JSON: {error}") from None


def _sizes(path: Path, architecture: dict[str, Any]) -> dict[str, int]:
    model_type = architecture.get("model_type")
    if not isinstance(model_type, str):
        raise ModelError(f"{path}: architecture.model_type: must be a model type of transformers, such as gpt2")
    keys = _FAMILIES.get(model_type, _USUAL)
    known = {*keys.values(), *_OPTIONAL_KEYS, "model_type"}
    for role in _REQUIRED:
        if keys[role] not in architecture:
            near = difflib.get_close_matches(keys[role], set(architecture) - known, 1)
            hint = f", where the file says {near[0]}" if near else ""
            raise ModelError(f"{path}: architecture.{keys[role]}: missing{hint}")
    for key in architecture:
        near = difflib.get_close_matches(key, known, 1, cutoff=0.9) if key not in known else []
        if near:
            raise ModelError(f"{path}: architecture.{key}: unknown; did you mean {near[0]}?")
    sizes = {role: architecture[key] for role, key in keys.items() if architecture.get(key) is not None}
    for role, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ModelError(f"{path}: architecture.{keys[role]}: must be a whole number above 0, not {size!r}")
    if "head_dim" not in sizes and sizes["hidden"] % sizes["heads"]:
        raise ModelError(f"{path}: architecture.{keys['hidden']}: must be a multiple of {keys['heads']}")
    return sizes


def _digest(file: _File) -> str:
    """Over what can change a measurement: not the title, and not where the count was published."""
    text = json.dumps(file.model_dump(include={"architecture", "pretrained"}), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        allowed = (Pretrained if key.startswith("pretrained.") else _File).model_fields
        near = difflib.get_close_matches(key.rsplit(".", 1)[-1], allowed, 1)
        message = f"unknown; did you mean {near[0]}?" if near else f"unknown; allowed are {', '.join(allowed)}"
    return f"{key}: {message}" if key else message
