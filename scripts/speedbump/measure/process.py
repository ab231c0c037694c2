"""The worker's process: started, listened to, ended."""

import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from speedbump.grid.stack import environment_of, not_passed_on
from speedbump.measure.privacy import without_paths
from speedbump.measure.system import Memory, read_system
from speedbump.measure.tree import descendants, kill

WORKER = Path(__file__).with_name("worker.py")

Event = dict[str, Any]


class StartError(Exception):
    """The worker's Python cannot be started."""


@dataclass
class Worker:
    """A worker that was started. ``output``: what libraries print."""

    process: subprocess.Popen[bytes]
    reports: int
    output: IO[bytes]
    ended: bool = False
    _partial: bytes = b""
    _printed_bytes: int = 0
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def __post_init__(self) -> None:
        self._selector.register(self.reports, selectors.EVENT_READ)

    def read_events(self, timeout_s: float) -> list[Event]:
        """What was reported, after ``timeout_s`` at the latest. Sets ``ended`` when no more can come."""
        if not self._selector.select(timeout_s):
            return []
        text = os.read(self.reports, 1 << 20)
        self.ended = not text
        *lines, self._partial = (self._partial + text).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> int:
        """Kill the worker and all it has started; wait until it is gone. Its return code: negative for a signal."""
        started = descendants(self.process.pid)
        # macOS answers that it may not, where only a dead process is left of the group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        kill(started)
        return code

    def new_output(self) -> str:
        """What was printed since the last call: whole lines, and once it has ended the rest."""
        text = self._read_output(self._printed_bytes)
        whole = text if self.ended else text[: text.rfind(b"\n") + 1]
        self._printed_bytes += len(whole)
        return whole.decode(errors="replace")

    def _read_output(self, start: int) -> bytes:
        """From a place on. The worker writes to the same open file, so a seek here would move where it writes."""
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size - start, start) if size > start else b""

    def last_line(self) -> str:
        """The last line that the worker printed, paths cut out."""
        size = os.fstat(self.output.fileno()).st_size
        lines = self._read_output(max(0, size - 10_000)).decode(errors="replace").split("\n")
        return without_paths(next((line.strip() for line in reversed(lines) if line.strip()), ""))[:500]


@contextmanager
def start_worker(
    python: str,
    task: dict[str, Any],
    descriptors: tuple[int, ...] = (),
    variables: dict[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[Worker]:
    """A worker with its task; ended, whatever happens, on leaving. Raises StartError.

    descriptors: inherited by the worker (locks).  variables: added to its environment, from which those of
    ``grid.stack.not_passed_on`` are left out.
    log: file for what it printed, paths cut out; written when it has ended.
    It leads a session of its own, so that Ctrl-C reaches the supervisor alone and all it started can be ended.
    """
    reading, writing = os.pipe()
    environment = {
        **{name: value for name, value in environment_of(python).items() if name not in not_passed_on()},
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "TOKENIZERS_PARALLELISM": "false",
        **(variables or {}),
    }
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [python, str(WORKER), str(writing)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(writing, *descriptors),
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            raise StartError(f"cannot start {Path(python).name}: {error.strerror}") from error
        finally:
            os.close(writing)
        worker = Worker(process, reading, output)
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(task).encode() + b"\n")
                process.stdin.flush()
            yield worker
        finally:
            worker.end()
            os.close(reading)
            if log:
                output.seek(0)
                log.write_text(without_paths(output.read().decode(errors="replace")))


def settle_memory(
    patience_s: float = 10.0,
    settled_bytes: int = 32 << 20,
    interval_s: float = 0.1,
    read: Callable[[], Memory] = read_system,
) -> Memory:
    """Return when the machine's memory in use no longer falls, or after ``patience_s``: the device's driver frees after
    the process is gone. The memory then.
    """
    memory = read()
    for _ in range(int(patience_s / interval_s)):
        time.sleep(interval_s)
        before, memory = memory, read()
        if memory.available_bytes - before.available_bytes < settled_bytes:
            break
    return memory
