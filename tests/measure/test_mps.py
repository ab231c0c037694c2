"""MPS without a Mac: a stand-in that behaves as PyTorch's source says, and the names that torch.mps really has."""

import ast
import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from speedbump.grid.cells import complete  # noqa: E402
from speedbump.grid.models import load_model  # noqa: E402
from speedbump.measure import accelerator, mps, session, worker  # noqa: E402
from speedbump.measure.accelerator import Accelerator, fault_of, open_accelerator  # noqa: E402
from speedbump.measure.failure import gpu_fault  # noqa: E402
from speedbump.measure.plan import plan_requests  # noqa: E402
from speedbump.measure.rows import Record, request_table  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("one_thread")]

ROOT = Path(__file__).parents[2]
TINY = load_model(ROOT / "tests" / "models" / "tiny.yaml").architecture
NAMES = json.loads((Path(__file__).parent / "data" / "torch_mps_names.json").read_text())
"""``torch.mps.__all__`` of the macOS wheels of the oldest torch supported and of the newest."""


def names_used() -> set[str]:
    """Every X of a ``torch.mps.X`` in the measuring code."""
    used = set()
    for path in (ROOT / "scripts" / "speedbump" / "measure").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch.mps":
                used.add(node.attr)
    return used


def test_every_name_used_is_in_the_oldest_and_the_newest_torch():
    assert names_used() >= {"synchronize", "driver_allocated_memory"}
    for wheel, names in NAMES.items():
        assert names_used() <= set(names), wheel


FAULT = """Error: command buffer exited with error status.
\tThe Metal Performance Shaders operations encoded on it may not have completed.
\tError:
\t(null)
\tCaused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)
"""


class StandIn:
    """An MPS device as PyTorch's source describes it: work is queued until somebody waits; the driver's
    memory holds the live tensors and a pool that only ``empty_cache`` gives back. The tensors are the CPU's.

    A command that fails raises nothing: Metal prints it, the wait returns, and whatever lies in memory is the result
    (MPSStream.mm, commitAndWait and checkLastError).
    """

    def __init__(self, steps_to_live: int | None = None) -> None:
        self.queued = 0
        self.waits: list[int] = []
        self.live_bytes = 1000
        self.pool_bytes = 0
        self.steps_to_live = steps_to_live

    def work(self) -> None:
        """One forward pass is asked for."""
        self.queued += 1
        self.pool_bytes += 100
        if self.steps_to_live is not None:
            self.steps_to_live -= 1
            if self.steps_to_live == -1:
                print(FAULT, end="", file=sys.stderr)

    def wait(self) -> None:
        self.waits.append(self.queued)
        self.queued = 0

    def empty_cache(self) -> None:
        self.pool_bytes = 0

    def accelerator(self) -> Accelerator:
        return Accelerator(
            "cpu",
            lambda: True,
            self.wait,
            self.empty_cache,
            lambda: self.live_bytes,
            lambda: self.live_bytes + self.pool_bytes,
            lambda: 10**9,
        )


def open_session(monkeypatch, device, **axes):
    monkeypatch.setattr(session, "open_accelerator", lambda name: device.accelerator())
    cell = {**CELL, **axes}
    opened = session.LocalSession(cell, {"architecture": TINY, "pretrained": None})
    opened.model.register_forward_hook(lambda *_: device.work())
    return opened


CELL = complete({"model": "tiny", "device": "cpu", "n_prompt": 9, "n_gen": 12, "seed": 3, "warmups": 1, "repeats": 2})


@pytest.mark.parametrize("harness", ["loop", "generate"])
def test_free_running_waits_before_the_request_after_the_first_token_and_at_the_end(monkeypatch, harness):
    device = StandIn()
    open_session(monkeypatch, device, harness=harness).answer(12)
    assert device.waits == [0, 1, 11]


@pytest.mark.parametrize("harness", ["loop", "generate"])
@pytest.mark.parametrize("instrument", ["step_sync", "per_step", "memory"])
def test_other_instruments_wait_after_every_step(monkeypatch, harness, instrument):
    device = StandIn()
    open_session(monkeypatch, device, harness=harness, instrument=instrument).answer(12)
    assert max(device.waits) == 1
    assert sum(device.waits) == 12


def test_driver_memory_holds_what_the_pool_keeps_and_empty_cache_gives_back(monkeypatch):
    device = StandIn()
    opened = open_session(monkeypatch, device, instrument="memory")
    answer = opened.answer(12)
    drivers = [sample["torch_driver_bytes"] for sample in answer["samples"]]
    assert drivers == sorted(drivers)
    assert answer["torch_driver_bytes"] >= answer["torch_current_bytes"] == 1000
    opened.empty_cache()
    assert opened.read_memory()["torch_driver_bytes"] == 1000


def run_worker(monkeypatch, device):
    """The worker's own flow, and the rows that come of what it reports."""
    monkeypatch.setattr(worker, "open_session", lambda task: open_session(monkeypatch, device))
    plan = plan_requests(CELL)
    record = Record()
    task = {
        "cell": CELL,
        "probe": None,
        "stays": False,
        "patience": {"seconds": 0},
        "requests": [vars(planned) for planned in plan],
    }

    def report(event, **content):
        record.take(json.loads(json.dumps({"event": event, **content})))

    try:
        worker.measure(task, report)
    except RuntimeError as error:
        report("failed", status=worker.status_of(error), message=worker.describe(error))
    return request_table(CELL, "machine", "stack", plan, record, [])


def test_a_device_that_fails_says_so_in_print_alone(monkeypatch, capsys):
    """So the supervisor reads what the worker prints: tests/measure/test_supervisor.py."""
    rows = run_worker(monkeypatch, StandIn(steps_to_live=30))
    assert rows["status"].to_list() == ["ok"] * 3
    assert rows["torch_driver_bytes"][0] > rows["torch_current_bytes"][0]
    status, message = gpu_fault(capsys.readouterr().err)
    assert status == "device_lost"
    assert "Caused GPU Timeout Error" in message


def test_memory_that_is_refused_ends_the_cell_and_keeps_what_was_measured(monkeypatch):
    """MPSAllocator.mm raises, of all that can go wrong there: TORCH_CHECK in malloc."""
    device = StandIn()
    work = device.work

    def refuse():
        work()
        if device.pool_bytes > 3000:
            raise RuntimeError("MPS backend out of memory (MPS allocated: 9.00 GiB, other allocations: 1.00 GiB)")

    monkeypatch.setattr(device, "work", refuse)
    rows = run_worker(monkeypatch, device)
    assert rows["status"].to_list() == ["ok", "ok", "out_of_memory"]


def test_a_device_that_stays_alive_gives_every_row(monkeypatch):
    assert run_worker(monkeypatch, StandIn())["status"].to_list() == ["ok"] * 3


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has a real MPS device")
def test_a_device_that_is_there_but_cannot_allocate_does_not_compute(monkeypatch):
    assert fault_of("mps") == f"torch {torch.__version__} sees no mps device"
    monkeypatch.setattr(mps.torch.mps, "is_available", lambda: True)
    assert open_accelerator("mps").is_available()
    assert "Error" in fault_of("mps")


def test_a_device_that_computes_wrongly_is_not_used(monkeypatch):
    monkeypatch.setattr(accelerator.torch, "arange", lambda *_, **__: torch.zeros(6))
    assert "a product of small numbers came out as" in fault_of("cpu")


def test_counters_are_those_of_torch(monkeypatch):
    for name, value in (("current_allocated_memory", 1), ("driver_allocated_memory", 2), ("recommended_max_memory", 3)):
        monkeypatch.setattr(torch.mps, name, lambda value=value: value)
    opened = open_accelerator("mps")
    assert (opened.current_bytes(), opened.driver_bytes(), opened.limit_bytes()) == (1, 2, 3)
