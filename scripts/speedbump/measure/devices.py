"""Which devices really compute here."""

import sys
import time
from typing import Any

from speedbump.measure.privacy import without_paths
from speedbump.measure.process import start_worker

PROBE_LIMIT_S = 300.0


def probe_devices(python: str = sys.executable) -> dict[str, dict[str, Any]]:
    """Ask a worker to compute something small on every kind of device, and check the result.

    Returns for cpu, mps and cuda whether it ``computes``, and ``why`` not; for cuda also ``name``,
    ``memory_bytes`` and ``count``. A worker that fails or hangs on a device is why it does not compute.
    """
    found: dict[str, dict[str, Any]] = {}
    why = "the worker ended without an answer"
    until_s = time.monotonic() + PROBE_LIMIT_S
    with start_worker(python, {"kind": "probe"}, variables={"HF_HUB_OFFLINE": "1"}) as worker:
        while not worker.ended:
            for event in worker.read_events(1.0):
                if event["event"] == "device":
                    found[event["device"]] = event["found"]
                elif event["event"] == "failed":
                    why = event["message"]
            if time.monotonic() > until_s:
                why = f"no answer within {PROBE_LIMIT_S:g} s"
                break
    for device in ("cpu", "mps", "cuda"):
        found.setdefault(device, {"computes": False, "why": why})
        if "why" in found[device]:
            found[device]["why"] = without_paths(found[device]["why"])
    return found
