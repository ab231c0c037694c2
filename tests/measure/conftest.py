"""What the measuring tests share: a tiny model, and a way to run one cell as the pipeline does."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

from speedbump.grid.machine import find_machine
from speedbump.grid.stack import find_stack
from speedbump.tables import REQUESTS, read_metadata, read_table

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "models"


@dataclass(frozen=True)
class Run:
    """A finished ``measure_cell``."""

    code: int
    stderr: str
    out: Path

    @property
    def requests(self) -> pl.DataFrame:
        return read_table(self.out, REQUESTS)

    @property
    def metadata(self) -> dict[str, Any]:
        return json.loads(read_metadata(self.out)["speedbump"])

    def column(self, name: str) -> list[Any]:
        return self.requests[name].to_list()


@dataclass(frozen=True)
class Command:
    """A ``measure_cell`` to be started."""

    arguments: list[str]
    environment: dict[str, str]
    out: Path

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(self.arguments, env=self.environment, stderr=subprocess.PIPE, text=True, cwd=ROOT)

    def start_on_terminal(self) -> "OnTerminal":
        """Start it with a pseudo-terminal as standard error."""
        ours, theirs = os.openpty()
        process = subprocess.Popen(self.arguments, env=self.environment, stderr=theirs, cwd=ROOT)
        os.close(theirs)
        return OnTerminal(process, ours, self.out)

    def run(self) -> Run:
        process = self.start()
        _, stderr = process.communicate(timeout=120)
        return Run(process.returncode, stderr, self.out)


@dataclass
class OnTerminal:
    """A ``measure_cell`` that runs, and the terminal that it writes to."""

    process: "subprocess.Popen[bytes]"
    terminal: int
    out: Path
    text: str = ""

    def wait_for(self, words: str) -> None:
        """Return when the terminal has shown the words."""
        while words not in self.text:
            self.text += os.read(self.terminal, 4096).decode()

    def worker(self) -> psutil.Process:
        """The worker's process."""
        return self.workers()[-1]

    def workers(self) -> list[psutil.Process]:
        """The worker's process after its companions', in the order in which they were started."""
        children = psutil.Process(self.process.pid).children()
        found = [child for child in children if "worker.py" in " ".join(child.cmdline())]
        return sorted(found, key=lambda child: child.create_time())

    def finish(self) -> Run:
        with contextlib.suppress(OSError):  # a pseudo-terminal that nobody holds any more
            while text := os.read(self.terminal, 4096).decode():
                self.text += text
        os.close(self.terminal)
        return Run(self.process.wait(timeout=120), self.text, self.out)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small products on a busy machine: threads would only wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def short_folder() -> Iterator[str]:
    """For locks and sockets of one test: macOS allows a socket's path 103 bytes, and ``tmp_path`` has 90 there."""
    folder = tempfile.mkdtemp(dir="/tmp", prefix="sb")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cell_command(tmp_path: Path, short_folder: str) -> Callable[..., Command]:
    """Makes the command for a tiny cell: axes and protocol as keywords."""

    def make(
        limits: dict[str, Any] | None = None,
        models: Path = MODELS,
        stack: str | None = None,
        environment: dict[str, str] | None = None,
        out: Path | None = None,
        **cell: Any,
    ) -> Command:
        whole = {
            "model": "tiny",
            "device": "cpu",
            "n_gen": 8,
            "warmups": 1,
            "repeats": 2,
            "seed": 1,
            "model_digest": "0" * 8,
            **cell,
        }
        out = out or tmp_path / "runs" / "cell.parquet"
        options = {
            "--cell": json.dumps(whole),
            "--machine": find_machine(),
            "--stack": stack or find_stack(),
            "--out": str(out),
            "--models": str(models),
            "--limits": json.dumps(limits or {}),
            "--log": str(tmp_path / "worker.log"),
        }
        arguments = [sys.executable, "scripts/measure_cell.py", *itertools.chain(*options.items())]
        locks = {"TMPDIR": short_folder}
        return Command(arguments, {**os.environ, **locks, **(environment or {})}, out)

    return make
