"""A profiled request: its operators, and that nothing else is profiled."""

import contextlib
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from speedbump.grid.models import load_model  # noqa: E402
from speedbump.measure import mps, profile  # noqa: E402
from speedbump.measure.plan import plan_requests  # noqa: E402
from speedbump.measure.supervisor import name_capture  # noqa: E402
from speedbump.tables import PROFILES, read_metadata, read_table  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_thread")]

TINY = load_model(Path(__file__).parents[1] / "models" / "tiny.yaml")
N_GEN = 2 * profile.STEPS_AT_ONCE + 6


def test_one_measured_request_is_profiled_whatever_the_protocol(cell_command):
    run = cell_command(instrument="profile", n_gen=N_GEN, warmups=2, repeats=5).run()
    assert run.code == 0, run.stderr
    assert run.column("phase") == ["warmup", "warmup", "measured"]
    assert run.column("tokens_hash")[0] == run.column("tokens_hash")[2]
    found = read_table(run.out.with_suffix(".profile.parquet"), PROFILES)
    assert set(found["request"]) == {2}
    calls = dict(zip(found["operator"], found["calls"], strict=True))
    # Every step of GPT-2 attends once a layer, and chooses one token.
    assert calls["aten::scaled_dot_product_attention"] == TINY.layers * N_GEN
    assert calls["aten::argmax"] == N_GEN
    assert set(found["side"]) == {"host"}
    assert found["self_device_s"].is_null().all()
    assert 0 < found["self_host_s"].sum() < run.column("e2e_s")[2]
    record = json.loads(read_metadata(run.out.with_suffix(".profile.parquet"))["speedbump"])
    assert record["cell"]["instrument"] == "profile"


def test_a_persistent_process_profiles_every_budget_once():
    cell = {"sequence": [8, 16], "warmups": 1, "repeats": 5, "instrument": "profile"}
    assert [(planned.phase, planned.n_gen) for planned in plan_requests(cell)] == [
        ("warmup", 8),
        ("measured", 8),
        ("measured", 16),
    ]


class Metal:
    """torch.mps.profiler as PyTorch's source describes it: a capture lies in the current folder, numbered."""

    def __init__(self, works=True):
        self.works = works
        self.said = []

    def start(self, mode):
        self.said.append(f"start {mode}")

    def stop(self):
        self.said.append("stop")

    def is_metal_capture_enabled(self):
        return True

    @contextlib.contextmanager
    def metal_capture(self, name):
        if not self.works:
            raise RuntimeError("Failed to start capture of it")
        self.said.append("capture")
        trace = Path(f"0000-{name}.gputrace")
        trace.mkdir()
        (trace / "metadata").touch()
        yield
        self.said.append("captured")


@pytest.mark.parametrize("works", [True, False])
def test_on_mps_signposts_are_set_and_a_few_steps_captured(monkeypatch, tmp_path, works, capsys):
    metal = Metal(works)
    monkeypatch.setattr(mps.torch.mps, "profiler", metal)
    out = tmp_path / "gpt2.mps.512.abc.parquet"
    before = Path.cwd()
    with profile.Profile("mps", str(out.with_suffix(""))) as profiled:
        for step in range(N_GEN):
            profiled.observe(torch.zeros(1, 1) + step)
            assert metal.said.count("captured") == (works and step >= profile.CAPTURED_STEPS.stop)
    assert Path.cwd() == before
    assert metal.said == ["start interval,event", *(["capture", "captured"] if works else []), "stop"]
    calls = {row["operator"]: row["calls"] for row in profiled.operators}
    assert calls["aten::add"] == N_GEN
    name_capture(out)
    assert out.with_suffix(".gputrace").is_dir() == works
    assert ("no Metal capture: Failed to start capture of it" in capsys.readouterr().err) != works


def test_no_capture_is_tried_where_metal_forbids_it(monkeypatch, tmp_path):
    metal = Metal()
    monkeypatch.setattr(metal, "is_metal_capture_enabled", lambda: False)
    monkeypatch.setattr(mps.torch.mps, "profiler", metal)
    with profile.Profile("mps", str(tmp_path / "cell")) as profiled:
        for _ in range(profile.CAPTURED_STEPS.stop + 1):
            profiled.observe(torch.zeros(1, 1))
    assert "capture" not in metal.said
