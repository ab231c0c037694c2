"""Which devices really compute on a machine and stack: asked once, remembered in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Found = dict[str, dict[str, Any]]
"""By device: ``computes``, and ``why`` not; ``present`` where there is one although it does not compute."""


def recall_devices(file: Path, probe: Callable[[], Found], say: Callable[[str], None]) -> dict[str, bool]:
    """For cpu, mps and cuda whether it computes. The answer is kept in ``file``.

    A device that is there and failed is probed again at the next start, since that may have been
    a passing fault: a driver not yet loaded, memory all taken.
    """
    found = _read(file)
    if found is None or any(entry.get("present") and not entry["computes"] for entry in found.values()):
        say("looking for devices that compute")
        found = probe()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    for device, entry in found.items():
        if entry.get("present") and not entry["computes"]:
            say(f"{device} is there but does not compute: {entry.get('why') or 'no reason given'}")
    return {device: bool(entry["computes"]) for device, entry in found.items()}


def _read(file: Path) -> Found | None:
    try:
        found = json.loads(file.read_text())
        return found if all("computes" in entry for entry in found.values()) else None
    except (OSError, ValueError, AttributeError, TypeError):
        return None
