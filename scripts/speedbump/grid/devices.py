"""Which devices really compute on a machine and stack: asked once, remembered in a file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speedbump.grid.listing import visible

Found = dict[str, dict[str, Any]]
"""By device: ``computes``, ``why`` not, and whether one is ``present``; without an answer it may be."""


class DevicesError(Exception):
    """Nobody has asked the machine that measures which of its devices compute; one line."""


def devices_file(machine: str, stack: str) -> Path:
    """Where the answer of a machine and stack is kept."""
    return Path("results", "machines", machine, f"{stack}.json")


def recall_devices(
    file: Path, probe: Callable[[], Found] | None, say: Callable[[str], None], keep: Callable[[Path, str], None]
) -> dict[str, bool]:
    """For cpu, mps and cuda whether it computes. A new answer is given to ``keep``, as the text of ``file``.

    A device that is there and failed is probed again at the next start, since that may have been
    a passing fault: a driver not yet loaded, memory all taken. One on which the probe crashed is not.
    probe: None where another machine measures, which must have been asked before; raises DevicesError when it was not.
    """
    found = _read(file)
    if probe is None:
        if found is None:
            missing = f"{file}: missing or broken; run python scripts/probe_devices.py on a node that measures"
            raise DevicesError(missing + _known_beside(file))
    elif found is None or any(map(may_recover, found.values())):
        say("looking for devices that compute")
        found = probe()
        keep(file, json.dumps(found, indent=1, sort_keys=True) + "\n")
    for device, entry in found.items():
        if has_failed(entry):
            say(f"{device} is there but does not compute: {entry.get('why') or 'no reason given'}")
            if not may_recover(entry):
                say(f"{device} is not tried again; to try it: python scripts/probe_devices.py")
    return _computing(found)


def known_devices(file: Path) -> dict[str, bool]:
    """The remembered answer; empty without one."""
    return _computing(_read(file) or {})


def _computing(found: Found) -> dict[str, bool]:
    return {device: bool(entry["computes"]) for device, entry in found.items()}


def has_failed(entry: dict[str, Any]) -> bool:
    """Whether the device is there but did not compute."""
    return entry.get("present", True) and not entry["computes"]


def may_recover(entry: dict[str, Any]) -> bool:
    """Whether the device failed in a way that may pass: not by crashing the process that tried it."""
    return has_failed(entry) and not entry.get("died", False)


def _known_beside(file: Path) -> str:
    """The other stacks of the machine, or the other machines where it has none; empty where nothing is known."""
    stacks = [other.stem for other in visible(file.parent, "*.json") if other != file]
    machines = sorted({other.parent.name for other in visible(file.parent.parent, "*/*.json") if other != file})
    if stacks:
        return f", or give with --config stack= one that {file.parent.name} has: {', '.join(stacks)}"
    return f", or give with --config machine= one that is known: {', '.join(machines)}" if machines else ""


def _read(file: Path) -> Found | None:
    try:
        found = json.loads(file.read_text())
        return found if all("computes" in entry for entry in found.values()) else None
    except (OSError, ValueError, AttributeError, TypeError):
        return None
