"""The same tokens, whatever keeps the cache, observes, or drives the model."""

import itertools
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from speedbump.grid.cells import complete  # noqa: E402
from speedbump.grid.models import load_models  # noqa: E402
from speedbump.measure.session import LocalSession  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_thread")]

TINY = load_models(Path(__file__).parents[1] / "models")["tiny"]
CELL = complete({"model": "tiny", "device": "cpu", "n_prompt": 9, "seed": 3})
N_GEN = 40


def answer(n_gen=N_GEN, **axes):
    return LocalSession({**CELL, **axes}, {"architecture": TINY.architecture, "pretrained": None}).answer(n_gen)


@pytest.fixture(scope="module")
def expected():
    return answer()


def test_the_tokens_vary(expected):
    assert expected["distinct_tokens"] >= N_GEN / 3


@pytest.mark.parametrize(
    ("harness", "kv_cache"), list(itertools.product(["loop", "generate"], ["dynamic", "static", "off"]))
)
@pytest.mark.parametrize("instrument", ["free_running", "step_sync", "per_step", "memory"])
def test_tokens_are_equal(expected, harness, kv_cache, instrument):
    given = answer(harness=harness, kv_cache=kv_cache, instrument=instrument)
    assert given["tokens_hash"] == expected["tokens_hash"]
    assert given["n_tokens"] == N_GEN


@pytest.mark.parametrize("harness", ["loop", "generate"])
def test_a_request_does_not_depend_on_those_before_it(expected, harness):
    session = LocalSession({**CELL, "harness": harness}, {"architecture": TINY.architecture, "pretrained": None})
    session.answer(64)
    session.answer(5)
    assert session.answer(N_GEN)["tokens_hash"] == expected["tokens_hash"]


@pytest.mark.parametrize("harness", ["loop", "generate"])
@pytest.mark.parametrize("n_gen", [1, 2])
def test_the_smallest_budgets(harness, n_gen):
    given = answer(n_gen=n_gen, harness=harness, instrument="per_step")
    assert given["n_tokens"] == n_gen == len(given["step_s"])


@pytest.mark.parametrize("harness", ["loop", "generate"])
def test_sequences_of_a_batch_are_decoded_apart(harness):
    given = answer(batch=3, harness=harness)
    assert given["n_tokens"] == N_GEN
    assert given["tokens_hash"] == answer(batch=3, kv_cache="off")["tokens_hash"]


def test_another_seed_gives_other_tokens(expected):
    assert answer(seed=4)["tokens_hash"] != expected["tokens_hash"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_stays_finite(dtype):
    assert answer(dtype=dtype)["finite"]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_runs_as_asked(expected, attention):
    session = LocalSession({**CELL, "attention": attention}, {"architecture": TINY.architecture, "pretrained": None})
    assert session.attention_ran == attention
    assert session.answer(N_GEN)["tokens_hash"] == expected["tokens_hash"]


def test_memory_is_sampled_at_every_step_of_a_memory_run():
    samples = answer(instrument="memory")["samples"]
    assert len(samples) == N_GEN
    offsets_s = [sample["offset_s"] for sample in samples]
    assert offsets_s == sorted(offsets_s)
    assert all(sample["rss_bytes"] > 0 for sample in samples)
