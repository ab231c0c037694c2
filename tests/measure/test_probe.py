"""The probe: what it computes, and what it says where the process that computes dies."""

import sys

import pytest

from speedbump.grid.devices import recall_devices
from speedbump.measure import devices, process
from speedbump.measure.devices import probe_devices

torch = pytest.importorskip("torch")

from speedbump.measure import accelerator  # noqa: E402
from speedbump.measure.accelerator import PROBE_VALUES, fault_of  # noqa: E402

DIES = """
import json, os, sys
reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)
task = json.loads(sys.stdin.readline())
with open({log!r}, "a") as log:
    print(*task["devices"], file=log)
for device in task["devices"]:
    if device == {on!r}:
        print("-[MTLHeapInternal newBuffer]: failed assertion", file=sys.stderr, flush=True)
        {death}
    found = {{"computes": device == "cpu", "present": device == "cpu"}}
    print(json.dumps({{"event": "device", "device": device, "found": found}}), file=reports)
print(json.dumps({{"event": "done"}}), file=reports)
"""


@pytest.fixture
def dying(tmp_path, monkeypatch):
    """A worker that dies on one device; ``asked``: the devices that each worker was to try."""

    def install(on, death, there=("cpu", "mps")):
        script, log = tmp_path / "worker.py", tmp_path / "asked"
        script.write_text(DIES.format(on=on, death=death, log=str(log)))
        monkeypatch.setattr(process, "WORKER", script)
        monkeypatch.setattr(devices, "possible_devices", lambda: {d: d in there for d in ("cpu", "mps", "cuda")})
        return lambda: log.read_text().splitlines()

    return install


def keep(file, text):
    """As the pipeline does when its jobs start."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_crash_on_mps_says_nothing_of_cuda_and_is_not_tried_again(dying, tmp_path):
    asked = dying("mps", "os.abort()")
    found = probe_devices()
    assert asked() == ["cpu mps cuda", "cuda"]
    assert found["cpu"] == {"computes": True, "present": True}
    assert found["cuda"] == {"computes": False, "present": False}
    why = "the worker was ended by SIGABRT: -[MTLHeapInternal newBuffer]: failed assertion"
    assert found["mps"] == {"computes": False, "present": True, "died": True, "why": why}
    said = []
    for _ in range(3):
        known = recall_devices(tmp_path / "mac" / "stack.json", probe_devices, said.append, keep)
        assert known == {"cpu": True, "mps": False, "cuda": False}
    assert len(asked()) == 4  # the first of the three starts alone
    assert said.count("looking for devices that compute") == 1
    assert said[-2:] == [
        f"mps is there but does not compute: {why}",
        "mps is not tried again; to try it: python scripts/probe_devices.py",
    ]


def test_a_machine_without_the_device_says_absent_even_where_the_worker_died(dying, tmp_path):
    asked = dying("cuda", "os.abort()", there=("cpu",))
    said = []
    for _ in range(2):
        recall_devices(tmp_path / "s.json", probe_devices, said.append, keep)
    assert said == ["looking for devices that compute"]
    assert len(asked()) == 1


def test_a_worker_that_something_killed_is_tried_again(dying, tmp_path):
    asked = dying("mps", "os.kill(os.getpid(), 9)")
    for _ in range(2):
        recall_devices(tmp_path / "s.json", probe_devices, lambda line: None, keep)
    assert len(asked()) == 4
    assert probe_devices()["mps"]["died"] is False


def test_a_worker_that_cannot_start_is_asked_once(dying):
    asked = dying("cpu", "sys.exit(1)")
    found = probe_devices()
    assert len(asked()) == 1
    assert [(entry["computes"], entry["present"]) for entry in found.values()] == [
        (False, True), (False, True), (False, False)
    ]  # fmt: skip
    assert {entry["why"] for entry in found.values()} == {"the worker ended without an answer"}


def test_sixteen_mebibytes_a_sum_a_place_and_a_product_must_come_out_right(monkeypatch):
    assert fault_of("cpu") is None
    assert PROBE_VALUES * 4 == 16 << 20
    zeros = torch.zeros

    def refuses(*size, **place):
        if size == (PROBE_VALUES,):
            raise RuntimeError("MPS backend out of memory. Tried to allocate 256 bytes on private pool.")
        return zeros(*size, **place)

    monkeypatch.setattr(accelerator.torch, "zeros", refuses)
    assert fault_of("cpu") == "RuntimeError: MPS backend out of memory. Tried to allocate 256 bytes on private pool."
    monkeypatch.setattr(accelerator.torch, "zeros", lambda size, **place: torch.ones(size, **place))
    assert fault_of("cpu") is None  # three is still the largest
    monkeypatch.setattr(accelerator.torch, "zeros", lambda size, **place: torch.full((size,), 4.0, **place))
    assert fault_of("cpu") == "place and largest value of a sum came out as [0, 6.0], not [4194302, 6.0]"


@pytest.mark.mps
@pytest.mark.skipif(sys.platform != "darwin", reason="macOS alone has MPS")
def test_one_cell_on_mps(cell_command):
    found = probe_devices()["mps"]
    if not found["computes"]:
        pytest.skip(f"MPS does not compute here: {found['why']}")
    run = cell_command({"allow_battery": True}, device="mps", n_gen=24).run()
    assert run.code == 0, run.stderr
    assert run.column("status") == ["ok"] * 3, run.column("message")
    assert len(set(run.column("tokens_hash"))) == 1
    assert min(run.column("torch_driver_bytes")) >= max(run.column("torch_current_bytes")) > 0
    assert min(run.column("footprint_bytes")) > 0
    assert run.metadata["environment"]["mps_recommended_bytes"] > 0
