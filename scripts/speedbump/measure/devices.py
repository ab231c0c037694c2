"""Which devices really compute here."""

import signal
import sys
import time
from typing import Any

from speedbump.grid.machine import possible_devices
from speedbump.measure.privacy import without_paths
from speedbump.measure.process import start_worker

DEVICES = ("cpu", "mps", "cuda")
PROBE_LIMIT_S = 300.0
CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP}
"""What ends a process by its own or a driver's fault, as Metal's assertions do; not a user, nor lack of memory."""


def probe_devices(python: str = sys.executable) -> dict[str, dict[str, Any]]:
    """Ask a worker to compute something on every kind of device, and check the result.

    Returns for cpu, mps and cuda whether it ``computes`` and is ``present``, and ``why`` not; for cuda also ``name``,
    ``memory_bytes`` and ``count``. A worker that fails or hangs on a device is why that one does not compute, and
    another is asked for the rest; one that crashed on it has ``died``.
    """
    found: dict[str, dict[str, Any]] = {}
    until_s = time.monotonic() + PROBE_LIMIT_S
    while waiting := [device for device in DEVICES if device not in found]:
        answers, without = _ask(python, waiting, until_s)
        found |= answers
        unanswered = [device for device in waiting if device not in found]
        there = possible_devices()
        if unanswered and without.pop("alone"):
            found[unanswered[0]] = {**without, "present": there[unanswered[0]]}
        else:
            found |= {device: {**without, "present": there[device]} for device in unanswered}
    for entry in found.values():
        if "why" in entry:
            entry["why"] = without_paths(entry["why"])
    return found


def _ask(python: str, devices: list[str], until_s: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """One worker's answers by device, and what is known of the first device without one. ``alone``: says nothing of the
    devices after it.
    """
    found: dict[str, Any] = {}
    why = ""
    with start_worker(python, {"kind": "probe", "devices": devices}, variables={"HF_HUB_OFFLINE": "1"}) as worker:
        while not worker.ended:
            for event in worker.read_events(1.0):
                if event["event"] == "device":
                    found[event["device"]] = event["found"]
                elif event["event"] == "failed":
                    why = event["message"]
            if time.monotonic() > until_s:
                why = f"no answer within {PROBE_LIMIT_S:g} s"
                break
        if why:  # not the device's fault: torch could not be imported, or no time is left
            return found, {"computes": False, "why": why, "alone": False}
        code = worker.process.wait()
        if code >= 0:
            return found, {"computes": False, "why": "the worker ended without an answer", "alone": False}
        ended = f"the worker was ended by {signal.Signals(-code).name}: {worker.last_line()}"
        return found, {"computes": False, "why": ended, "alone": True, "died": -code in CRASHES}
