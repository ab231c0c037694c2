"""One measurement at a time on a device: files locked in a folder that belongs to the node and the user."""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Slot:
    """A device that one measurement can hold.

    visible: its name for CUDA_VISIBLE_DEVICES, or empty.  index: its number on the node, where it has one.
    """

    name: str
    visible: str = ""
    index: int | None = None


@dataclass(frozen=True)
class Held:
    """Locks that are held. The worker inherits ``descriptors``, so that a lock outlives a killed supervisor."""

    slots: tuple[Slot, ...]
    descriptors: tuple[int, ...]


def find_slots() -> list[Slot]:
    """The devices of this node; one, whatever it is, where no NVIDIA tool lists several."""
    return [Slot(f"cuda-{hashlib.sha256(uuid.encode()).hexdigest()[:12]}", uuid, index) for uuid, index in _gpus()] or [
        Slot("only")
    ]


@contextmanager
def hold_device(
    device: str,
    slots: list[Slot],
    is_wanted: Callable[[], bool] = lambda: True,
    notice: Callable[[str], None] = print,
    folder: Path | None = None,
) -> Iterator[Held]:
    """Hold one free slot, or all of them for a CPU cell, which any other measurement would disturb.

    Waits until they are free, and says so once through ``notice``. Raises InterruptedError when it is no
    longer wanted meanwhile.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"speedbump-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    choices: list[tuple[Slot, ...]] = [tuple(slots)] if device == "cpu" else [(slot,) for slot in slots]
    waiting = False
    while (held := _try(choices, folder)) is None:
        if not waiting:
            notice("waiting: another measurement holds the device")
            waiting = True
        if not is_wanted():
            raise InterruptedError("the process that asked for this cell is gone")
        time.sleep(0.2)
    try:
        yield held
    finally:
        for descriptor in held.descriptors:
            os.close(descriptor)


def _try(choices: list[tuple[Slot, ...]], folder: Path) -> Held | None:
    for slots in choices:
        descriptors: list[int] = []
        try:
            for slot in slots:
                descriptors.append(os.open(folder / f"{slot.name}.lock", os.O_RDWR | os.O_CREAT, 0o600))
                fcntl.flock(descriptors[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            return Held(slots, tuple(descriptors))
    return None


def _gpus() -> list[tuple[str, int | None]]:
    """UUID and index of the GPUs that this process may use: nvidia-smi's, cut down by CUDA_VISIBLE_DEVICES."""
    if sys.platform == "darwin":
        return []
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    uuids = answer.stdout.split() if answer.returncode == 0 else []
    indices = {uuid: index for index, uuid in enumerate(uuids)}
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return list(indices.items())
    names = [name.strip() for name in allowed.split(",") if name.strip()]
    chosen = [uuids[int(name)] if name.isdigit() and int(name) < len(uuids) else name for name in names]
    return [(name, indices.get(name)) for name in chosen if not name.isdigit()]
