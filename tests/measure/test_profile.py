"""A profiled request: its operators, and that nothing else is profiled."""

import contextlib
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from speedbump.grid.cells import complete  # noqa: E402
from speedbump.grid.models import load_model  # noqa: E402
from speedbump.grid.study import Limits  # noqa: E402
from speedbump.measure import mps, profile, session, supervisor  # noqa: E402
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


def test_on_mps_signposts_are_set(monkeypatch):
    metal = Metal()
    monkeypatch.setattr(mps.torch.mps, "profiler", metal)
    with profile.Profile("mps") as profiled:
        for step in range(N_GEN):
            profiled.observe(torch.zeros(1, 1) + step)
    assert metal.said == ["start interval,event", "stop"]
    calls = {row["operator"]: row["calls"] for row in profiled.operators}
    assert calls["aten::add"] == N_GEN


@pytest.mark.parametrize("works", [True, False])
def test_a_few_steps_are_captured(monkeypatch, tmp_path, works, capsys):
    metal = Metal(works)
    monkeypatch.setattr(mps.torch.mps, "profiler", metal)
    out = tmp_path / "gpt2.mps.512.abc.parquet"
    before = Path.cwd()
    with profile.Capture(out.with_suffix("")) as capture:
        for step in range(N_GEN):
            capture.observe(torch.zeros(1, 1) + step)
            assert metal.said.count("captured") == (works and step >= profile.CAPTURED_STEPS.stop)
    assert Path.cwd() == before
    assert metal.said == (["capture", "captured"] if works else [])
    name_capture(out)
    assert out.with_suffix(".gputrace").is_dir() == works
    assert ("no Metal capture: Failed to start capture of it" in capsys.readouterr().err) != works


def test_no_capture_is_tried_where_metal_forbids_it(monkeypatch, tmp_path):
    metal = Metal()
    monkeypatch.setattr(metal, "is_metal_capture_enabled", lambda: False)
    monkeypatch.setattr(mps.torch.mps, "profiler", metal)
    with profile.Capture(tmp_path / "cell") as capture:
        for _ in range(profile.CAPTURED_STEPS.stop + 1):
            capture.observe(torch.zeros(1, 1))
    assert "capture" not in metal.said


@pytest.mark.parametrize(
    ("asked", "axes", "captured"),
    [
        (True, {"device": "mps", "instrument": "profile"}, True),
        (False, {"device": "mps", "instrument": "profile"}, False),
        (True, {"device": "mps", "instrument": "memory"}, False),
        (True, {"device": "cuda", "instrument": "profile"}, False),
    ],
)
def test_metal_captures_on_request_alone(asked, axes, captured, tmp_path):
    """The variable that permits a capture changes how every request of the process runs."""
    cell = {"model": "tiny", "n_gen": 8, "warmups": 0, "repeats": 1, "seed": 1, **axes}
    limits = Limits(metal_capture=asked)
    assert ("MTL_CAPTURE_ENABLED" in supervisor._variables(cell, TINY, "", limits)) == captured
    task = supervisor.make_task(cell, TINY, plan_requests(cell), tmp_path / "cell.parquet", limits)
    assert (task["capture"] is not None) == captured


def test_a_capture_is_of_a_request_of_its_own(monkeypatch, tmp_path):
    metal = Metal()
    monkeypatch.setattr(mps.torch.mps, "profiler", metal)
    cell = complete({"model": "tiny", "device": "cpu", "n_gen": 16, "instrument": "profile", "seed": 1})
    model = {"architecture": TINY.architecture, "pretrained": None}
    ran = []
    opened = session.LocalSession(cell, model, str(tmp_path / "cell"))
    monkeypatch.setattr(
        opened, "run", lambda *args: ran.append(list(metal.said)) or session.LocalSession.run(opened, *args)
    )
    answer = opened.answer(16)
    assert (len(ran), metal.said) == (2, ["capture", "captured"])
    assert {row["operator"]: row["calls"] for row in answer["operators"]}["aten::argmax"] == 16
