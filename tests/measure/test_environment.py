"""Power, heat, disturbance, privacy, progress, locks: what surrounds a measurement."""

import errno
import io
import json
import os
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from speedbump.grid.models import load_model
from speedbump.grid.study import Limits, parse_limits
from speedbump.grid.swap import Demand
from speedbump.measure import environment, power, supervisor
from speedbump.measure.environment import State, boot_id, find_disturbances, parse_compressed, read_state
from speedbump.measure.failure import FaultError, describe, gpu_fault, status_of
from speedbump.measure.lock import Slot, find_slots, hold_device
from speedbump.measure.power import Power, parse_low_power_mode, parse_thermal, wait_until_cool
from speedbump.measure.privacy import without_paths
from speedbump.measure.progress import Progress
from speedbump.tables import STATUSES

MAINS = Power("mains", False, "nominal")
BEFORE = State(wall_s=1000.0, monotonic_s=0.0, busy_s=0.0, own_s=0.0, swap_bytes=0, power=MAINS)
CORES = os.cpu_count() or 1
AFTER = State(1100.0, 100.0, busy_s=100.0, own_s=100.0, swap_bytes=0, power=MAINS)
GIB = 2**30
SMALL = Demand(16 * GIB, available_before_bytes=12 * GIB, needed_bytes=GIB, swapped_bytes=0, others_grew_bytes=0)
LARGE = replace(SMALL, needed_bytes=11 * GIB)


def took(before_s, after_s, sentinel="sentinel"):
    return {f"{sentinel}_before_s": before_s, f"{sentinel}_after_s": after_s}


def test_a_quiet_cell_is_not_flagged():
    assert find_disturbances(BEFORE, AFTER, took(0.05, 0.055) | took(0.02, 0.018, "host_sentinel"), SMALL) == []
    assert find_disturbances(BEFORE, AFTER, {"sentinel_before_s": 0.05}, SMALL) == []


@pytest.mark.parametrize(
    ("after", "sentinels", "reason"),
    [
        (AFTER, took(0.05, 0.08), "the sentinel took 1.60 times as long after the cell as before"),
        (AFTER, took(0.08, 0.05), "the sentinel took 0.62 times as long after the cell as before"),
        (
            AFTER,
            took(0.05, 0.05) | took(0.02, 0.03, "host_sentinel"),
            "the host's sentinel took 1.50 times as long after the cell as before",
        ),
        (replace(AFTER, busy_s=100.0 + 50.0 * CORES), took(1, 1), "other processes used 50% of the cores"),
        (replace(AFTER, others_on_gpu=1), took(1, 1), "another process computes on the GPU"),
        (replace(AFTER, wall_s=1700.0), took(1, 1), "the machine slept for 600 s, or its clock was set"),
        (replace(AFTER, power=replace(MAINS, source="battery")), took(1, 1), "power changed from mains to battery"),
        (replace(AFTER, power=replace(MAINS, low_power_mode=True)), took(1, 1), "low-power mode"),
        (replace(AFTER, power=replace(MAINS, thermal="heavy")), took(1, 1), "thermal pressure was heavy"),
    ],
)
def test_what_disturbs_a_cell_is_named(after, sentinels, reason):
    assert find_disturbances(BEFORE, after, sentinels, SMALL) == [reason]


@pytest.mark.parametrize(
    ("demand", "flagged"),
    [
        (replace(SMALL, swapped_bytes=512 << 20), ["swap grew by 512 MiB"]),
        (replace(LARGE, swapped_bytes=3 * GIB), []),
        (replace(LARGE, swapped_bytes=3 * GIB, others_grew_bytes=100 << 20), []),
        (replace(LARGE, swapped_bytes=3 * GIB, others_grew_bytes=11 * GIB), ["swap grew by 1536 MiB"]),
    ],
)
def test_swap_disturbs_a_cell_that_did_not_cause_it(demand, flagged):
    assert find_disturbances(BEFORE, AFTER, took(1, 1), demand) == flagged


def test_compression_that_the_cell_made_necessary_is_not_another_process():
    kernel_s = 40.0 * CORES
    after = replace(AFTER, busy_s=100.0 + kernel_s, kernel_s=1.0 + kernel_s, own_kernel_s=1.0)
    busy = ["other processes used 40% of the cores"]
    swapping = replace(LARGE, swapped_bytes=GIB)
    squeezed = replace(after, compressed_bytes=GIB)
    assert find_disturbances(BEFORE, squeezed, took(1, 1), SMALL) == busy
    assert find_disturbances(BEFORE, after, took(1, 1), LARGE) == busy
    assert find_disturbances(BEFORE, after, took(1, 1), swapping) == []
    assert find_disturbances(replace(BEFORE, compressed_bytes=0), squeezed, took(1, 1), LARGE) == []
    beside = replace(after, busy_s=after.busy_s + 30.0 * CORES)
    assert find_disturbances(BEFORE, beside, took(1, 1), swapping) == ["other processes used 30% of the cores"]


def test_battery_power_throughout_is_named():
    battery = replace(MAINS, source="battery")
    after = replace(AFTER, power=battery)
    assert find_disturbances(replace(BEFORE, power=battery), after, took(1, 1), SMALL) == ["on battery power"]


def test_macos_settings_are_read_from_what_its_tools_print():
    assert parse_low_power_mode("System-wide power settings:\n lowpowermode         1\n standby 1\n") is True
    assert parse_low_power_mode(" powermode            0\n") is False
    assert parse_low_power_mode("") is None
    assert parse_thermal("com.apple.system.thermalpressurelevel 2\n") == "heavy"
    assert parse_thermal("com.apple.system.thermalpressurelevel 9\n") is None
    assert parse_thermal("") is None
    counts = "Pages free: 10.\nPages stored in compressor: 900.\nPages occupied by compressor:   300.\n"
    heading = "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
    assert parse_compressed(heading + counts) == 300 * 16384
    assert parse_compressed("") is None


def test_serious_heat_is_waited_for_and_said_once():
    states = iter([replace(MAINS, thermal="heavy"), replace(MAINS, thermal="trapping"), MAINS])
    said: list[str] = []
    wait_until_cool(said.append, patience_s=0.1, read=lambda: next(states))
    assert said == ["waiting: thermal pressure is heavy"]


def test_heat_that_stays_is_not_waited_for_forever():
    wait_until_cool(lambda text: None, patience_s=0.05, read=lambda: replace(MAINS, thermal="heavy"))


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("cannot open /home/jane/models/x.gguf", "cannot open x.gguf"),
        ("in '/Users/jane/a b/c.py', line 3", "in 'a b/c.py', line 3"),
        ("C:\\Users\\jane\\x.txt is gone", "x.txt is gone"),
        ("~/secret/x.bin", "x.bin"),
        ("a ratio of 3/4 and https://pytorch.org/docs", "a ratio of 3/4 and https://pytorch.org/docs"),
        (f"lost {Path.home()}/x", "lost x"),
    ],
)
def test_paths_are_cut_down_to_their_last_part(text, clean):
    assert without_paths(text) == clean


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (MemoryError(), "out_of_memory"),
        (RuntimeError("MPS backend out of memory (MPS allocated: 26.00 GB)"), "out_of_memory"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory"),
            "out_of_memory",
        ),
        (RuntimeError("CUDA error: unspecified launch failure"), "device_lost"),
        (RuntimeError("MPS backend: command buffer exited with error status."), "device_lost"),
        (RuntimeError("Invalid buffer size: 9.20 GiB"), "out_of_memory"),
        (RuntimeError("Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"), "out_of_memory"),
        (RuntimeError("Hang (00000003:kIOGPUCommandBufferCallbackErrorHang)"), "device_lost"),
        (TypeError("BFloat16 is only supported on macOS 14 or newer"), "unsupported"),
        (RuntimeError("invalid low watermark ratio 1.4"), "unsupported"),
        (RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"), "unsupported"),
        (ValueError("BloomForCausalLM does not support an attention implementation through sdpa yet"), "unsupported"),
        (NotImplementedError("The operator is not currently implemented for the MPS device"), "unsupported"),
        (ImportError("no name"), "import_error"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk_full"),
        (FaultError("killed", "the server died"), "killed"),
        (RuntimeError("shape mismatch"), "failed"),
    ],
)
def test_errors_have_a_status(error, status):
    assert status_of(error) == status
    assert status in STATUSES
    assert "\n" not in describe(error)


# What Metal prints to standard error, as in reports of users of PyTorch and of the framework's other clients.
TIMEOUT = """Error: command buffer exited with error status.
\tThe Metal Performance Shaders operations encoded on it may not have completed.
\tError:
\t(null)
\tCaused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)
\t<AGXG13XFamilyCommandBuffer: 0x13f0b2c00>
"""
NO_MEMORY = (
    "Execution of the command buffer was aborted due to an error during execution. "
    "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\n"
)


@pytest.mark.parametrize(
    ("printed", "status", "message"),
    [
        (TIMEOUT, "device_lost", "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)"),
        (NO_MEMORY, "out_of_memory", "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"),
        (
            "\tIgnored (for causing prior/excessive GPU errors) (00000004:kIOGPUCommandBufferCallbackErrorIgnored)\n",
            "device_lost",
            "Ignored (for causing prior/excessive GPU errors) (00000004:kIOGPUCommandBufferCallbackErrorIgnored)",
        ),
        (
            "kIOAccelCommandBufferCallbackErrorOutOfMemory\n",
            "out_of_memory",
            "kIOAccelCommandBufferCallbackErrorOutOfMemory",
        ),
        ("Error: command buffer exited with error status.\n", "device_lost", "command buffer exited with error status"),
    ],
)
def test_a_fault_that_metal_prints_has_a_status(printed, status, message):
    assert gpu_fault(f"loading\n{printed}done\n") == (status, f"a GPU command failed unnoticed by torch: {message}")


def test_what_libraries_print_otherwise_is_no_fault():
    assert gpu_fault("UserWarning: The operator 'aten::x' is not currently supported on the MPS backend\n") is None


def test_limits_keep_their_defaults_and_refuse_what_they_do_not_know():
    limits = parse_limits('{"cell_limit_s": 10, "guard": {"free_disk_gb": 1}}')
    assert (limits.cell_limit_s, limits.guard.free_disk_gb, limits.guard.free_memory_gb) == (10, 1, 0.5)
    for wrong in ('{"cell_limit": 1}', '{"guard": {"swap": 1}}', "[]", "{", '{"cell_limit_s": "1"}'):
        with pytest.raises(ValueError, match="--limits"):
            parse_limits(wrong)


def test_a_cpu_cell_takes_every_device_and_others_take_one(tmp_path):
    slots = [Slot("a", "0"), Slot("b", "1")]
    with hold_device("cuda", slots, folder=tmp_path) as first:
        assert [slot.name for slot in first.slots] == ["a"]
        with hold_device("cuda", slots, folder=tmp_path) as second:
            assert [slot.visible for slot in second.slots] == ["1"]
    with hold_device("cpu", slots, folder=tmp_path) as all_of_them:
        assert all_of_them.slots == tuple(slots)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_counts_cells_and_tells_the_time_left(tmp_path, monkeypatch):
    (tmp_path / "done.parquet").touch()
    runs = [{"file": str(tmp_path / name), "estimate_s": 120.0} for name in ("done.parquet", "b.parquet", "c.parquet")]
    (tmp_path / "work.json").write_text(json.dumps(runs))
    monkeypatch.setenv("SPEEDBUMP_PROGRESS", str(tmp_path / "work.json"))
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        progress = Progress({"model": "gpt2", "device": "mps", "n_gen": 512}, [512] * 4, stream)
        progress.show_request(2)
        progress.finish("ok")
    assert plain.getvalue() == (
        "cell 2 of 3: gpt2 on mps, 512 tokens, 4 min left\ncell 2 of 3: gpt2 on mps, 512 tokens: ok\n"
    )
    assert "4 min left, request 3 of 4, 1024 of 2048 tokens" in terminal.getvalue()
    assert terminal.getvalue().count("\n") == 1


def test_progress_without_a_list_counts_nothing(monkeypatch):
    monkeypatch.delenv("SPEEDBUMP_PROGRESS", raising=False)
    stream = io.StringIO()
    Progress({"model": "gpt2", "device": "cpu", "sequence": [1, 2]}, [1, 1, 2, 2], stream)
    assert stream.getvalue() == "gpt2 on cpu, 2 budgets\n"


def test_macos_is_kept_awake_until_the_cell_is_over(tmp_path, monkeypatch):
    called = tmp_path / "called"
    stand_in = tmp_path / "caffeinate"
    stand_in.write_text(f'#!/bin/sh\necho "$@" > "{called}"\nexec sleep 600\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(power.sys, "platform", "darwin")
    before = set(psutil.Process().children())
    with power.stay_awake():
        while not called.exists() or not called.read_text():
            time.sleep(0.01)
        [holder] = set(psutil.Process().children()) - before
        assert called.read_text().split()[-2:] == ["-w", str(os.getpid())]
    assert not holder.is_running()


def test_battery_power_is_refused_unless_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "read_power", lambda: replace(MAINS, source="battery"))
    cell = {"model": "tiny", "device": "cpu", "n_gen": 1, "warmups": 0, "repeats": 1, "seed": 1}
    model = load_model(Path(__file__).parents[1] / "models" / "tiny.yaml")
    with pytest.raises(supervisor.RefusedError, match="on battery power: plug the machine in"):
        supervisor.measure_cell(cell, model, "machine", "stack", tmp_path / "x.parquet", Limits())
    assert not list(tmp_path.iterdir())


def test_who_waits_for_a_device_in_vain_is_let_go(tmp_path):
    slots = [Slot("only")]
    said: list[str] = []
    with (
        hold_device("cuda", slots, folder=tmp_path),
        pytest.raises(InterruptedError),
        hold_device("cuda", slots, lambda: False, said.append, tmp_path),
    ):
        pass
    assert said == ["waiting: another measurement holds the device"]


def test_gpus_are_those_that_the_process_may_use(monkeypatch, tmp_path):
    stand_in = tmp_path / "nvidia-smi"
    stand_in.write_text("#!/bin/sh\necho GPU-aaa\necho GPU-bbb\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [slot.visible for slot in find_slots()] == ["GPU-aaa", "GPU-bbb"]
    assert "aaa" not in find_slots()[0].name
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [slot.visible for slot in find_slots()] == ["GPU-bbb"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-aaa")
    assert [slot.visible for slot in find_slots()] == ["GPU-aaa"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-aaa,MIG-c")
    assert [slot.index for slot in find_slots()] == [1, 0, None]


def test_only_processes_on_the_cells_own_gpu_disturb_it(monkeypatch, tmp_path):
    stand_in = tmp_path / "nvidia-smi"
    stand_in.write_text('#!/bin/sh\ncase "$*" in *GPU-bbb*) echo 123;; esac\n')
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert [read_state(gpu).others_on_gpu for gpu in ("GPU-aaa", "GPU-bbb", "")] == [0, 1, 0]


@pytest.mark.parametrize(("before", "listed", "found"), [(0, "21100", 0), (1, "211", 1), (0, "1", 1), (None, "10", 1)])
def test_a_process_that_ended_may_be_listed_for_a_moment(before, listed, found, monkeypatch):
    """listed: how many there are at each look; the last stay."""
    looks, clock = list(listed), iter(range(100))
    monkeypatch.setattr(
        environment, "_ask", lambda *command: "123\n" * int(looks.pop(0) if len(looks) > 1 else looks[0])
    )
    monkeypatch.setattr(environment, "LISTED_S", 10)
    monkeypatch.setattr(environment.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(environment.time, "sleep", lambda seconds: None)
    assert environment._count_on_gpu("GPU-aaa", before) == found


def test_swap_that_others_caused_while_a_cell_waited_disturbs_nothing():
    swapped = replace(SMALL, swapped_bytes=2 * GIB, others_grew_bytes=2 * GIB)
    assert find_disturbances(BEFORE, AFTER, {}, swapped) == ["swap grew by 2048 MiB"]
    assert find_disturbances(BEFORE, AFTER, {}, swapped, waited_swap_bytes=2 * GIB) == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux numbers its boots")
def test_a_boot_is_told_apart_without_being_named():
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert re.fullmatch("[0-9a-f]{12}", boot_id())
    assert boot_id() == boot_id()
    assert boot_id() not in boot.replace("-", "")
