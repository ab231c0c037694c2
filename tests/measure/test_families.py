"""Every model of the repository: its published size, and the same tokens however it is run."""

import itertools
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import transformers  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

from speedbump.grid.cells import complete  # noqa: E402
from speedbump.grid.models import load_models  # noqa: E402
from speedbump.measure.network import build_random  # noqa: E402
from speedbump.measure.session import LocalSession  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_thread")]

MODELS = load_models(Path(__file__).parents[2] / "config" / "models")

PUBLISHED = {
    "distilgpt2": 81_912_576,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "bloom-560m": 559_214_592,
    "opt-350m": 331_196_416,
    "qwen3-0.6b": 596_049_920,
    "llama-3.2-1b": 1_235_814_400,
    "smollm2-135m": 134_515_008,
    "gemma-3-270m": 268_098_176,
}
"""Counts of the published checkpoints, tied weights once; the models' files say where."""

WORDS = 2000
"""Two layers and a small vocabulary are enough to see whether a family's caches agree."""

CELL = complete({"device": "cpu", "n_prompt": 9, "seed": 3})


def shrunk(name):
    architecture = MODELS[name].architecture
    smaller = {key: 2 for key in ("n_layer", "num_hidden_layers") if key in architecture}
    return {**architecture, **smaller, "vocab_size": WORDS, "bos_token_id": None, "eos_token_id": None}


def session(name, **axes):
    return LocalSession({**CELL, **axes}, {"architecture": shrunk(name), "pretrained": None})


def test_all_published_models_are_here():
    assert set(PUBLISHED) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_as_published(name):
    architecture = dict(MODELS[name].architecture)
    config = AutoConfig.for_model(architecture.pop("model_type"), **architecture)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name] == MODELS[name].parameters


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_equal_over_caches_and_harnesses(name):
    model = session(name)
    expected = model.answer(12)
    for kv_cache, harness in itertools.product(("dynamic", "static", "off"), ("loop", "generate")):
        model.cell = {**CELL, "kv_cache": kv_cache, "harness": harness}
        if (name, kv_cache, harness) == ("bloom-560m", "static", "loop") and transformers.__version__ < "5":
            with pytest.raises(NotImplementedError, match="static cache"):
                model.answer(12)
            continue
        assert model.answer(12)["tokens_hash"] == expected["tokens_hash"], (kv_cache, harness)


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_stays_finite(name):
    assert session(name, dtype="float16").answer(2)["finite"]


@pytest.mark.parametrize("name", ["distilgpt2", "smollm2-135m", "gemma-3-270m"])
def test_random_weights_give_varied_tokens(name):
    whole = LocalSession(CELL, {"architecture": MODELS[name].architecture, "pretrained": None})
    assert whole.answer(12)["distinct_tokens"] >= 4


@pytest.mark.parametrize("name", ["gpt2", "opt-350m", "gemma-3-270m"])
def test_no_weight_is_left_as_memory_happened_to_be(name):
    first, second = (build_random(shrunk(name), "float32", "auto", "cpu", seed=1) for _ in range(2))
    for (label, one), two in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(one, two), label
        assert torch.isfinite(one).all(), label
    assert any(parameter.std() > 0 for parameter in first.parameters())


def test_weights_are_the_same_in_every_precision():
    full = build_random(shrunk("gpt2"), "float32", "auto", "cpu", seed=1)
    half = build_random(shrunk("gpt2"), "bfloat16", "auto", "cpu", seed=1)
    for one, two in zip(full.parameters(), half.parameters(), strict=True):
        assert torch.equal(one.to(torch.bfloat16), two)
