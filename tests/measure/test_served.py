"""The LitServe harness: what it answers, and how it fails."""

import socket
from pathlib import Path

import psutil
import pytest

pytest.importorskip("torch")
pytest.importorskip("litserve")

from speedbump.grid.cells import complete
from speedbump.grid.models import load_model
from speedbump.measure.failure import FaultError
from speedbump.measure.served import ServedSession

pytestmark = pytest.mark.model

MODEL = {
    "architecture": load_model(Path(__file__).parents[1] / "models" / "tiny.yaml").architecture,
    "pretrained": None,
}
CELL = complete({"device": "cpu", "n_prompt": 9, "instrument": "per_step", "harness": "litserve", "seed": 3})


def test_a_served_model_answers_fails_and_answers_again():
    served = ServedSession(CELL, MODEL)
    try:
        assert served.attention_ran == "sdpa"
        assert min(served.time_sentinels().values()) > 0
        served.empty_cache()
        answer = served.answer(6)
        assert answer["n_tokens"] == 6 == len(answer["step_s"])
        assert answer["e2e_s"] > answer["inside_e2e_s"] == pytest.approx(sum(answer["step_s"]), rel=0.1)
        with pytest.raises(FaultError) as caught:
            served.answer(5000)
        assert caught.value.status == "failed"
        assert "IndexError" in str(caught.value)
        assert served.answer(6)["tokens_hash"] == answer["tokens_hash"]
    finally:
        started = psutil.Process(served._server.pid).children(recursive=True)
        served.close()
    assert len(started) >= 2
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in started)


def test_a_port_that_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(FaultError) as caught:
            ServedSession(CELL, MODEL, port=other.getsockname()[1])
    assert caught.value.status == "failed"
    assert "the server did not start" in str(caught.value)


def test_a_model_that_cannot_be_built_is_told_with_its_status():
    vast = {**MODEL["architecture"], "vocab_size": 10**12}
    with pytest.raises(FaultError) as caught:
        ServedSession(CELL, {"architecture": vast, "pretrained": None})
    assert caught.value.status == "out_of_memory"
