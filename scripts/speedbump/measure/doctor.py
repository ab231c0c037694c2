"""Eight checks of what was read of macOS and never seen by the authors, each with a line to paste into an issue."""

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.grid.machine import find_machine
from speedbump.grid.models import load_model
from speedbump.grid.stack import find_stack
from speedbump.grid.study import Limits
from speedbump.grid.sysctl import read_int
from speedbump.measure.devices import probe_devices
from speedbump.measure.memory import footprint_bytes
from speedbump.measure.power import stay_awake
from speedbump.measure.privacy import without_paths
from speedbump.measure.supervisor import measure_cell
from speedbump.measure.system import CRITICAL, NORMAL, WARNING, read_system
from speedbump.tables import REQUESTS, read_metadata, read_table

PASS, DIFFERS, UNKNOWN, ELSEWHERE = "pass", "differs", "can't tell", "only on macOS"

MIB = 2**20
BLOCK_BYTES = 16 * MIB
READS = 16
CACHED_S = 1.0
"""For so long macOS answers ``host_statistics64`` with what it said before (XNU's osfmk/kern/host.c)."""
LEVELS = {NORMAL: "normal", WARNING: "warning", CRITICAL: "critical"}
"""``kern.memorystatus_vm_pressure_level``: NOTE_MEMORYSTATUS_PRESSURE_* of XNU's <sys/event.h>."""
WATERMARK = "PYTORCH_MPS_HIGH_WATERMARK_RATIO"
MODEL = "distilgpt2"
STOP_S = 0.2
FOOTPRINT_SLACK = 0.1


@dataclass(frozen=True)
class Finding:
    """What one check came to, with the figures it rests on."""

    outcome: str
    figures: str = ""


@dataclass(frozen=True)
class Cell:
    """What a measured cell left: its requests table and its record."""

    requests: pl.DataFrame
    record: dict[str, Any]


@dataclass
class Machine:
    """All that the checks ask of the machine, so that a test can stand in for it.

    free_bytes: free memory, as the guard reads it.  level: how short of memory macOS says that it is, None where it
    does not.  ask: the output of a command, empty where it fails.
    measure: one cell by its axes, with variables added to the environment.
    """

    is_mac: bool
    free_bytes: Callable[[], int]
    level: Callable[[], int | None]
    ask: Callable[..., str]
    probe: Callable[[], dict[str, dict[str, Any]]]
    awake: Callable[[], AbstractContextManager[None]]
    footprint: Callable[[], int | None]
    measure: Callable[..., Cell]
    _devices: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def devices(self) -> dict[str, dict[str, Any]]:
        """The probe's answer, asked for once."""
        self._devices = self._devices or self.probe()
        return self._devices

    @property
    def has_mps(self) -> bool:
        return bool(self.devices["mps"]["computes"])


def this_machine(root: Path, folder: Path) -> Machine:
    """The machine that runs this. root: of the project.  folder: an empty one for what the checks measure."""
    is_mac = sys.platform == "darwin"
    return Machine(
        is_mac=is_mac,
        free_bytes=lambda: read_system().available_bytes,
        level=lambda: read_int("kern.memorystatus_vm_pressure_level"),
        ask=_ask,
        probe=probe_devices,
        awake=stay_awake,
        footprint=footprint_bytes,
        measure=lambda name, variables, **axes: _measure(root, folder / f"{name}.parquet", variables, axes),
    )


def examine(machine: Machine) -> Iterator[tuple[str, Finding]]:
    """Every check's name and finding, in order; one that fails itself cannot tell."""
    for name, check in CHECKS.items():
        try:
            yield name, check(machine)
        except Exception as error:
            message = " ".join(str(error).split())
            yield name, Finding(UNKNOWN, without_paths(f"{type(error).__name__}: {message}"))


def check_counters(machine: Machine) -> Finding:
    """Whether the guard's count of free memory moves while memory is taken, or is a cached one."""
    held, seen = [], [machine.free_bytes()]
    begun_s = time.monotonic()
    for number in range(READS):
        held.append(bytes([number + 1]) * BLOCK_BYTES)
        seen.append(machine.free_bytes())
    elapsed_s = time.monotonic() - begun_s
    moved = sum(before != after for before, after in itertools.pairwise(seen))
    figures = f"free memory moved at {moved} of {READS} reads in {elapsed_s:.2f} s while {READS * 16} MiB were taken"
    if_cached = elapsed_s / CACHED_S + 1
    return Finding(PASS if moved > 2 * if_cached else DIFFERS if moved <= if_cached else UNKNOWN, figures)


def check_level(machine: Machine) -> Finding:
    """Whether macOS says how short of memory it is."""
    if not machine.is_mac:
        return Finding(ELSEWHERE)
    level = machine.level()
    figures = f"kern.memorystatus_vm_pressure_level is {'not readable' if level is None else level}"
    if level not in LEVELS:
        return Finding(DIFFERS, f"{figures}, expected 1, 2 or 4")
    return Finding(PASS, f"{figures}, {LEVELS[level]}")


def check_watermarks(machine: Machine) -> Finding:
    """Whether the user's own watermark of the MPS allocator stays out of the worker."""
    cell = machine.measure("watermark", {WATERMARK: "0.0"}, device="cpu", n_gen=2)
    there = {k: v for k, v in cell.record["environment"]["variables"].items() if "WATERMARK" in k}
    figures = f"{WATERMARK}=0.0 was set; the worker had {there or 'none'}"
    return Finding(DIFFERS if there else PASS, figures)


def check_probe(machine: Machine) -> Finding:
    """Whether the device that is there computes."""
    found = [
        f"{name} computes" if entry["computes"] else f"{name} does not: {entry.get('why') or 'no reason given'}"
        for name, entry in machine.devices.items()
        if entry["computes"] or entry.get("present", True)
    ]
    broken = any(entry.get("present", True) and not entry["computes"] for entry in machine.devices.values())
    absent = machine.is_mac and not machine.devices["mps"].get("present", True)
    return Finding(DIFFERS if broken or absent else PASS, "; ".join(found) + ("; no mps" if absent else ""))


def check_sleep(machine: Machine) -> Finding:
    """Whether caffeinate keeps the system awake while cells are measured."""
    if not machine.is_mac:
        return Finding(ELSEWHERE)
    with machine.awake():
        time.sleep(0.5)
        text = machine.ask("pmset", "-g", "assertions")
    kept = dict(
        re.findall(r"^\s*(PreventUserIdle(?:System|Display)Sleep|PreventSystemSleep)\s+(\d)", text, re.MULTILINE)
    )
    figures = ", ".join(f"{name} {value}" for name, value in kept.items()) or "pmset -g assertions names none"
    ours = "caffeinate" in text
    held = ours and kept.get("PreventUserIdleSystemSleep") == "1"
    return Finding(
        PASS if held else DIFFERS if kept else UNKNOWN, f"{figures}; caffeinate {'is' if ours else 'not'} named"
    )


def check_footprint(machine: Machine) -> Finding:
    """Whether the footprint that is recorded is the memory that Activity Monitor, and top, show of a process."""
    if not machine.is_mac:
        return Finding(ELSEWHERE)
    held = os.urandom(BLOCK_BYTES) * 16
    own = machine.footprint()
    text = machine.ask("top", "-l", "1", "-pid", str(os.getpid()), "-stats", "pid,mem")
    match = re.search(rf"^\s*{os.getpid()}\*?\s+(\d+(?:\.\d+)?)([BKMG])", text, re.MULTILINE)
    if own is None or not match:
        return Finding(UNKNOWN, f"footprint {own}, top said {'nothing of this process' if not match else match[0]}")
    shown = float(match[1]) * {"B": 1, "K": 2**10, "M": MIB, "G": 2**30}[match[2]]
    figures = f"footprint {own / MIB:.0f} MiB, top {shown / MIB:.0f} MiB, with {len(held) // MIB} MiB taken"
    return Finding(PASS if abs(own - shown) <= FOOTPRINT_SLACK * shown else DIFFERS, figures)


def check_tokens(machine: Machine) -> Finding:
    """Whether the same weights and prompt give the same tokens on MPS and on the CPU."""
    if not machine.is_mac:
        return Finding(ELSEWHERE)
    if not machine.has_mps:
        return Finding(UNKNOWN, "MPS does not compute here")
    hashes = {device: _hashes(machine.measure(device, {}, device=device, n_gen=32)) for device in ("cpu", "mps")}
    figures = ", ".join(f"{device} {' and '.join(map(str, found))}" for device, found in hashes.items())
    same = hashes["cpu"] == hashes["mps"] and None not in hashes["cpu"] and len(hashes["cpu"]) == 1
    return Finding(PASS if same else DIFFERS, f"hashes of 32 tokens: {figures}")


def _hashes(cell: Cell) -> list[str | None]:
    return sorted(set(cell.requests["tokens_hash"].to_list()), key=str)


def check_stop(machine: Machine) -> Finding:
    """Whether a request that is stopped becomes a row that says: at least this slow."""
    device = "mps" if machine.has_mps else "cpu"
    cell = machine.measure("stopped", {}, device=device, n_gen=400, request_limit_s=STOP_S)
    first = cell.requests.row(0, named=True)
    figures = f"on {device}, limit {STOP_S:g} s: status {first['status']}, at least {first['e2e_s'] or 0:.2f} s"
    stopped = first["status"] == "stopped" and first["lower_bound"] and first["e2e_s"] >= STOP_S
    rest = set(cell.requests["status"][1:]) <= {"not_run"}
    return Finding(PASS if stopped and rest else DIFFERS, figures)


CHECKS: dict[str, Callable[[Machine], Finding]] = {
    "counters fresh": check_counters,
    "guard level": check_level,
    "watermarks": check_watermarks,
    "probe": check_probe,
    "sleep hold": check_sleep,
    "footprint": check_footprint,
    "tokens equal": check_tokens,
    "one stopped cell": check_stop,
}


def _measure(root: Path, out: Path, variables: dict[str, str], axes: dict[str, Any]) -> Cell:
    """A cell of MODEL, through the supervisor and a worker of its own."""
    model = load_model(root / "config" / "models" / f"{MODEL}.yaml")
    cell = {"model": MODEL, "warmups": 1, "repeats": 1, "seed": 0, "model_digest": model.digest, **axes}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        measure_cell(cell, model, find_machine(), find_stack(), out, Limits(allow_battery=True, cell_limit_s=120))
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return Cell(read_table(out, REQUESTS), json.loads(read_metadata(out)["speedbump"]))


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
