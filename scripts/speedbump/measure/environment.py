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

from speedbump.measure.power import SERIOUS, Power, read_power

SENTINEL_DRIFT = 1.3
"""A sentinel that takes so many times longer, or shorter, flags the cell."""
OTHERS_SHARE = 0.25
"""Share of all cores that other processes may use during a cell."""
SWAP_BYTES = 64 << 20
"""Growth of swap in use that counts as activity."""
SLEEP_S = 5.0
"""How far the wall clock may run ahead of the monotonic one."""

_GPU_PROCESSES = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader", "-i")


@dataclass(frozen=True)
class State:
    """The machine at one moment. Clocks and CPU times in seconds."""

    wall_s: float
    monotonic_s: float
    busy_s: float
    own_s: float
    swap_bytes: int
    power: Power
    compressed_bytes: int | None = None
    others_on_gpu: int = 0


def read_state(gpu: str = "") -> State:
    """The machine now. ``gpu``: UUID of the NVIDIA GPU whose processes are counted, or empty."""
    times = psutil.cpu_times()
    idle_s = times.idle + getattr(times, "iowait", 0.0)
    guest_s = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return State(
        wall_s=time.time(),
        monotonic_s=time.monotonic(),
        busy_s=sum(times) - idle_s - guest_s,
        own_s=sum(usage.ru_utime + usage.ru_stime for usage in usages),
        swap_bytes=psutil.swap_memory().used,
        power=read_power(),
        compressed_bytes=parse_compressed(_ask("vm_stat")) if sys.platform == "darwin" else None,
        others_on_gpu=len(_ask(*_GPU_PROCESSES, gpu).split()) if gpu else 0,
    )


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


def find_disturbances(before: State, after: State, sentinels: Mapping[str, float]) -> list[str]:
    """Why a cell's times may not be its own, in plain words. ``sentinels``: seconds, by column of the requests
    table, of those that ran.

    The worker must have ended, or its CPU time counts as another process's.
    """
    reasons = []
    for name, title in (("sentinel", "the sentinel"), ("host_sentinel", "the host's sentinel")):
        first_s, last_s = (sentinels.get(f"{name}_{when}_s") for when in ("before", "after"))
        if first_s and last_s and not 1 / SENTINEL_DRIFT <= last_s / first_s <= SENTINEL_DRIFT:
            reasons.append(f"{title} took {last_s / first_s:.2f} times as long after the cell as before")
    elapsed_s = after.monotonic_s - before.monotonic_s
    others = (after.busy_s - before.busy_s - (after.own_s - before.own_s)) / (elapsed_s * (os.cpu_count() or 1))
    if others > OTHERS_SHARE:
        reasons.append(f"other processes used {others:.0%} of the cores")
    swap_bytes = after.swap_bytes - before.swap_bytes
    if swap_bytes > SWAP_BYTES:
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
    release = platform.mac_ver()[0] if sys.platform == "darwin" else platform.release()
    return {
        "os": platform.system(),
        "os_release": release,
        "os_build": _ask("sw_vers", "-buildVersion") if sys.platform == "darwin" else None,
        "architecture": platform.machine(),
        "chip": _chip(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def boot_id() -> str | None:
    """Hashed identity of this node's current boot: tells nodes of one kind apart, and names none. Linux only."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return hashlib.sha256(boot.encode()).hexdigest()[:12]


def git_commit() -> str | None:
    """The commit of Speedbump itself, where it runs from a clone."""
    return _ask("git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD") or None


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
