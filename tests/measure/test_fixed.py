"""The decode step over fixed buffers: the tokens of the plain one, and no word from the host within it."""

import shutil
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from speedbump.grid.cells import complete  # noqa: E402
from speedbump.grid.models import load_models  # noqa: E402
from speedbump.measure import session  # noqa: E402
from speedbump.measure.fixed import Fixed, as_it_is  # noqa: E402
from speedbump.measure.session import LocalSession  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_thread")]

MODELS = load_models(Path(__file__).parents[2] / "config" / "models")
N_GEN = 24
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def open_session(name="distilgpt2", **axes):
    cell = {"model": name, "device": "cpu", "kv_cache": "static", "n_prompt": 9, "seed": 3, **axes}
    smaller = {key: 2 for key in ("n_layer", "num_hidden_layers") if key in MODELS[name].architecture}
    small = {**MODELS[name].architecture, **smaller, "vocab_size": 2000, "bos_token_id": None, "eos_token_id": None}
    return LocalSession(complete(cell), {"architecture": small, "pretrained": None})


def hashes(opened, *budgets):
    return [opened.answer(n_gen)["tokens_hash"] for n_gen in budgets]


@pytest.fixture
def uncompiled(monkeypatch):
    """What is captured or compiled elsewhere is here run as it is."""
    monkeypatch.setitem(session.PREPARE, "cuda_graph", as_it_is)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ["distilgpt2", "opt-350m", "llama-3.2-1b", "qwen3-0.6b", "smollm2-135m"])
@pytest.mark.parametrize("axes", [{}, {"batch": 3}, {"instrument": "per_step"}])
def test_tokens_of_fixed_buffers_are_those_of_a_static_cache(name, axes):
    expected = hashes(open_session(name, **axes), N_GEN, 1, 2)
    fixed = open_session(name, compile="cuda_graph", **axes)
    assert hashes(fixed, N_GEN, N_GEN, 1, 2, N_GEN) == [expected[0], *expected, expected[0]]
    assert len(set(expected)) == 3


@pytest.mark.usefixtures("uncompiled")
def test_a_cache_that_counts_on_the_host_is_refused():
    with pytest.raises(NotImplementedError, match="counts its tokens on the host"):
        open_session("gemma-3-270m", compile="cuda_graph").answer(4)


class Watch(TorchDispatchMode):
    """Notes what a CUDA graph cannot hold: values that the host asks for, and tensors made of its numbers."""

    FORBIDDEN = ("_local_scalar_dense", "item", "lift_fresh", "nonzero", "masked_select", "is_nonzero", "equal")

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in self.FORBIDDEN:
            self.found.add(name)
        return func(*args, **(kwargs or {}))


@torch.inference_mode()
def test_the_watch_sees_both_ways():
    with Watch() as watch:
        torch.tensor(0.5)
        torch.ones(1).sum().item()
    assert watch.found == {"lift_fresh", "item"}


@pytest.mark.parametrize("name", ["distilgpt2", "opt-350m", "llama-3.2-1b", "qwen3-0.6b", "smollm2-135m"])
@torch.inference_mode()
def test_a_step_asks_the_host_nothing(name):
    opened = open_session(name)
    watch = Watch()

    def watched(advance, rewind, device):
        def run():
            with watch:
                return advance()

        return run

    fixed = Fixed(opened.model, 9 + N_GEN, opened.prompt, watched)
    token, _ = fixed.step(opened.prompt)
    for _ in range(3):
        token, _ = fixed.step(token)
    assert not watch.found


@pytest.mark.skipif(not (shutil.which("c++") or shutil.which("g++")), reason="torch.compile needs a C++ compiler here")
def test_tokens_of_compiled_code_are_those_of_a_static_cache():
    expected = hashes(open_session(), N_GEN)
    assert hashes(open_session(compile="inductor"), N_GEN, N_GEN) == expected * 2


@needs_cuda
@pytest.mark.parametrize("compile_", ["cuda_graph", "inductor"])
@pytest.mark.parametrize("instrument", ["free_running", "per_step", "memory"])
def test_tokens_are_equal_on_cuda(compile_, instrument):
    expected = hashes(open_session(device="cuda"), N_GEN, 2)
    fixed = open_session(device="cuda", compile=compile_, instrument=instrument)
    assert hashes(fixed, N_GEN, N_GEN, 2, N_GEN) == [expected[0], *expected, expected[0]]
