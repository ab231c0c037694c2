"""What a cell's processes hold of the machine's memory, as the supervisor sees it while they run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speedbump.measure.memory import footprint_bytes
from speedbump.measure.tree import descendants

LOOK_S = 0.5
"""At most so often; a look reads one small file, or asks the kernel once, for each process."""


def held_bytes(pid: int) -> int:
    """What a process holds in memory and swap; 0 when it is gone. On macOS its footprint, GPU memory included."""
    footprint = footprint_bytes(pid)
    if footprint is not None:
        return footprint
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("VmRSS:", "VmSwap:")))


@dataclass
class Need:
    """The most that a cell's processes held at a time.

    pids: each that the supervisor started, with all that it has started.  unified: the device's memory is the
    machine's, so what its driver holds counts, too.  read, clock: of a process' bytes, and seconds.
    """

    unified: bool
    read: Callable[[int], int] = held_bytes
    clock: Callable[[], float] = time.monotonic
    peak_bytes: int = 0
    _pids: dict[int, list[int]] = field(default_factory=dict, init=False)
    _looked_s: float = field(default=float("-inf"), init=False)

    def follow(self, pid: int) -> None:
        """Count a process and all that it has started by now: not while a request runs, since that takes a while."""
        self._pids[pid] = [pid, *(child.pid for child in descendants(pid))]

    def look(self) -> None:
        """Add up what all of them hold, unless that was done a moment ago."""
        if self.clock() - self._looked_s >= LOOK_S:
            self._looked_s = self.clock()
            self.peak_bytes = max(self.peak_bytes, sum(self.read(pid) for pids in self._pids.values() for pid in pids))

    def take(self, answer: dict[str, Any]) -> None:
        """What the worker itself read after a request."""
        held = [answer.get("footprint_bytes"), answer.get("torch_driver_bytes") if self.unified else None]
        self.peak_bytes = max(self.peak_bytes, *(value or 0 for value in held))
