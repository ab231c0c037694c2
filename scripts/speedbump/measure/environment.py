"""The machine and its state, as the supervisor sees them: recorded with every cell, compared to flag disturbed ones."""

import contextlib
import hashlib
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from speedbump.grid.machine import find_os_version
from speedbump.grid.swap import NOTICED_BYTES, Demand, others_swap_bytes, own_swap_bytes
from speedbump.grid.sysctl import read_int, read_text
from speedbump.measure.power import SERIOUS, Power, read_power
from speedbump.measure.system import read_system

SENTINEL_DRIFT = 1.3
"""A sentinel that takes so many times longer, or shorter, flags the cell."""
OTHERS_SHARE = 0.25
"""Share of all cores that other processes may use during a cell."""
SLEEP_S = 5.0
"""How far the wall clock may run ahead of the monotonic one."""
LISTED_S = 5.0
"""For so long a process that was ended may still be listed as one that computes on the GPU."""

_GPU_PROCESSES = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader", "-i")


@dataclass(frozen=True)
class State:
    """The machine at one moment. Clocks and CPU times in seconds: busy of all processes, own of this one and of those
    that it started and that have ended; kernel: the part of both that was spent within the system.
    """

    wall_s: float
    monotonic_s: float
    busy_s: float
    own_s: float
    swap_bytes: int
    power: Power
    compressed_bytes: int | None = None
    others_on_gpu: int = 0
    kernel_s: float = 0.0
    own_kernel_s: float = 0.0


def read_state(gpu: str = "", others_before: int | None = None) -> State:
    """The machine now. ``gpu``: UUID of the NVIDIA GPU whose processes are counted, or empty.

    others_before: how many there were before the cell, whose own processes were ended just now: what is more than that
    is counted again for LISTED_S. The clocks are read before.
    """
    times = psutil.cpu_times()
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    guest_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    state = State(
        wall_s=time.time(),
        monotonic_s=time.monotonic(),
        busy_s=sum(times) - idle_s - guest_s,
        own_s=sum(usage.ru_utime + usage.ru_stime for usage in usages),
        swap_bytes=read_system().swap_bytes,
        power=read_power(),
        compressed_bytes=parse_compressed(_ask("vm_stat")) if sys.platform == "darwin" else None,
        kernel_s=times.system,
        own_kernel_s=sum(usage.ru_stime for usage in usages),
    )
    return replace(state, others_on_gpu=_count_on_gpu(gpu, others_before)) if gpu else state


def _count_on_gpu(gpu: str, most: int | None) -> int:
    """Processes that compute there; of more than ``most`` those that stay."""
    until_s = time.monotonic() + LISTED_S
    while True:
        count = len(_ask(*_GPU_PROCESSES, gpu).split())
        if most is None or count <= most or time.monotonic() >= until_s:
            return count
        time.sleep(LISTED_S / 20)


def with_cpu_of(state: State, pid: int) -> State:
    """The state with the CPU time of a worker that still runs, and of all it has started, as one's own: the system
    counts a child's only when that has ended.
    """
    used_s = 0.0
    with contextlib.suppress(psutil.Error):
        worker = psutil.Process(pid)
        for process in (worker, *worker.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                used_s += times.user + times.system
    return replace(state, own_s=state.own_s + used_s)


def parse_compressed(text: str) -> int | None:
    """Bytes that macOS's compressor occupies, from what ``vm_stat`` prints: a page size, and counts of pages."""
    size = re.search(r"page size of (\d+) bytes", text)
    pages = re.search(r"Pages occupied by compressor:\s+(\d+)", text)
    return int(size[1]) * int(pages[1]) if size and pages else None


def find_disturbances(
    before: State, after: State, sentinels: Mapping[str, float], demand: Demand, waited_swap_bytes: int = 0
) -> list[str]:
    """Why a cell's times may not be its own, in plain words. ``sentinels``: seconds, by column of the requests
    table, of those that ran.

    demand: of the cell's own processes. Where they made the system compress or swap, that is what they cost: the swap
    that they caused is no disturbance, nor is the time in which the system itself worked (``kernel_task`` on macOS,
    ``kswapd`` on Linux), which counts as other processes' otherwise.
    waited_swap_bytes: growth of swap while the cell waited for a quiet machine, which disturbed nothing.
    The worker must have ended, or its CPU time counts as another process's.
    """
    reasons = []
    for name, title in (("sentinel", "the sentinel"), ("host_sentinel", "the host's sentinel")):
        first_s, last_s = (sentinels.get(f"{name}_{when}_s") for when in ("before", "after"))
        if first_s and last_s and not 1 / SENTINEL_DRIFT <= last_s / first_s <= SENTINEL_DRIFT:
            reasons.append(f"{title} took {last_s / first_s:.2f} times as long after the cell as before")
    elapsed_s = after.monotonic_s - before.monotonic_s
    others_s = after.busy_s - before.busy_s - (after.own_s - before.own_s)
    if _makes_the_system_work(before, after, demand):
        others_s -= max(0.0, after.kernel_s - before.kernel_s - (after.own_kernel_s - before.own_kernel_s))
    others = others_s / (elapsed_s * (os.cpu_count() or 1))
    if others > OTHERS_SHARE:
        reasons.append(f"other processes used {others:.0%} of the cores")
    swap_bytes = others_swap_bytes(demand) - waited_swap_bytes
    if swap_bytes > NOTICED_BYTES:
        reasons.append(f"swap grew by {swap_bytes / 2**20:.0f} MiB")
    if before.others_on_gpu or after.others_on_gpu:
        reasons.append("another process computes on the GPU")
    asleep_s = after.wall_s - before.wall_s - elapsed_s
    if asleep_s > SLEEP_S:
        reasons.append(f"the machine slept for {asleep_s:.0f} s, or its clock was set")
    if before.power.source != after.power.source:
        reasons.append(f"power changed from {before.power.source} to {after.power.source}")
    elif after.power.source == "battery":
        reasons.append("on battery power")
    if before.power.low_power_mode or after.power.low_power_mode:
        reasons.append("low-power mode")
    hot = [state.power.thermal for state in (before, after) if state.power.thermal in SERIOUS]
    if hot:
        reasons.append(f"thermal pressure was {hot[-1]}")
    return reasons


def _makes_the_system_work(before: State, after: State, demand: Demand) -> bool:
    """Whether the cell is why memory was compressed or swapped out."""
    compressed_bytes = (after.compressed_bytes or 0) - (before.compressed_bytes or 0)
    return own_swap_bytes(demand) > NOTICED_BYTES or (demand.presses and compressed_bytes > NOTICED_BYTES)


def describe_state(state: State) -> dict[str, Any]:
    """Power, heat and memory pressure at one moment; None where the system does not say."""
    return {
        "power_source": state.power.source,
        "low_power_mode": state.power.low_power_mode,
        "thermal": state.power.thermal,
        "swap_used_bytes": state.swap_bytes,
        "compressed_bytes": state.compressed_bytes,
    }


def describe_machine() -> dict[str, Any]:
    """Hardware and operating system; no name of a user, a host or a folder, and no serial number."""
    macos = sys.platform == "darwin"
    return {
        "os": platform.system(),
        "os_release": find_os_version() if macos else platform.release(),
        "os_build": _ask("sw_vers", "-buildVersion") if macos else None,
        "architecture": platform.machine(),
        "chip": _chip(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        **(describe_mac() if macos else {}),
    }


def describe_mac() -> dict[str, Any]:
    """What tells Macs of one chip and memory apart; None where the system does not say.

    model: such as ``MacBookAir10,1``, which has no fan.  performance_cores, efficiency_cores: ``hw.perflevel0`` and
    ``1``.  gpu_wired_limit_mb: what the user lets the GPU wire, 0 for the system's own limit.
    """
    return {
        "model": read_text("hw.model"),
        "performance_cores": read_int("hw.perflevel0.physicalcpu"),
        "efficiency_cores": read_int("hw.perflevel1.physicalcpu"),
        "gpu_cores": parse_gpu_cores(_ask("ioreg", "-rc", "AGXAccelerator", "-d1")),
        "gpu_wired_limit_mb": read_int("iogpu.wired_limit_mb"),
    }


def parse_gpu_cores(text: str) -> int | None:
    """From what ``ioreg`` prints of the GPU's driver."""
    found = re.search(r'"gpu-core-count"\s*=\s*(\d+)', text)
    return int(found[1]) if found else None


def boot_id() -> str | None:
    """Hashed identity of this node's current boot: tells nodes of one kind apart, and names none. Linux only."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return hashlib.sha256(boot.encode()).hexdigest()[:12]


def git_commit(root: Path = Path(__file__).parents[3]) -> str | None:
    """The commit of Speedbump itself, where it runs from a clone.

    Git is not asked elsewhere, nor where macOS' stand-in for it would open a window that offers to install it.
    """
    if not (root / ".git").exists() or (sys.platform == "darwin" and not _ask("xcode-select", "-p")):
        return None
    return _ask("git", "-C", str(root), "rev-parse", "--short=12", "HEAD") or None


def peak_rss_bytes() -> int:
    """The largest resident memory that this process has had."""
    try:
        # Not getrusage's: on Linux that one begins with what the parent held when it forked.
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _chip() -> str:
    if sys.platform == "darwin":
        return _ask("sysctl", "-n", "machdep.cpu.brand_string")
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
