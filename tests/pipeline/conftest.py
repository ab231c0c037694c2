"""A project of its own for each test, and Snakemake run in it for real."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "rules", "scripts", "config", "reports", "profiles", "tests/models", "tests/studies")
STUDY = "tests/studies/tiny.yaml"


@dataclass
class Outcome:
    """What a run of Snakemake did: its exit status, all it printed, and the jobs it ran by rule."""

    status: int
    text: str
    jobs: Counter = field(default_factory=Counter)


@dataclass(frozen=True)
class Project:
    """A copy of the project that a test may change and run."""

    root: Path

    def command(self, *arguments: str, study: str | None = STUDY) -> list[str]:
        chosen = [f"--configfile={study}"] if study else []
        return [sys.executable, "-m", "snakemake", "--cores", "1", "--quiet=host", *chosen, *arguments]

    def run(self, *arguments: str, study: str | None = STUDY, env: dict | None = None, timeout: float = 600) -> Outcome:
        done = subprocess.run(
            self.command(*arguments, study=study),
            cwd=self.root,
            env={**os.environ, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
        )
        jobs = Counter(re.findall(r"^(?:local)?(?:rule|checkpoint) (\w+):$", done.stdout, re.MULTILINE))
        return Outcome(done.returncode, done.stdout, jobs)

    def script(self, *arguments: str) -> subprocess.CompletedProcess:
        """One of the project's scripts, run by hand."""
        return subprocess.run([sys.executable, *arguments], cwd=self.root, capture_output=True, text=True, timeout=120)

    def start(self, *arguments: str, study: str | None = STUDY) -> subprocess.Popen:
        """Snakemake in a process group of its own, so that a test can interrupt or kill it."""
        return subprocess.Popen(
            self.command(*arguments, study=study),
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text()
        assert old in text, f"{path} no longer holds {old!r}"
        file.write_text(text.replace(old, new))

    @property
    def runs(self) -> list[Path]:
        return sorted(self.root.glob("results/runs/*/*/*.parquet"))

    def tree(self) -> dict[Path, tuple[int, bytes]]:
        """Time and content of every file, but for Snakemake's own memory and Python's."""
        files = (file for file in self.root.rglob("*") if not {".snakemake", "__pycache__"} & set(file.parts))
        return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in files if file.is_file()}

    def copy(self, target: Path) -> "Project":
        shutil.copytree(self.root, target, copy_function=shutil.copy2)
        return Project(target)


def make_project(target: Path) -> Project:
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (target / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / part)
    return Project(target)


@pytest.fixture(scope="session")
def measured(tmp_path_factory) -> Project:
    """The tiny study, measured once and for all tests; its path has what shells trip over."""
    project = make_project(tmp_path_factory.mktemp("pipeline") / "a user's project")
    outcome = project.run()
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 3
    return project


@pytest.fixture
def project(measured, tmp_path) -> Project:
    """A copy of the measured project, for one test to change."""
    return measured.copy(tmp_path / "a user's project")


@pytest.fixture
def fresh(tmp_path) -> Project:
    """A project in which nothing is measured yet."""
    return make_project(tmp_path / "fresh")


@pytest.fixture(scope="session")
def new_project(tmp_path_factory) -> Callable[[str], Project]:
    """Makes a project in which nothing is measured yet, for several tests."""
    return lambda name: make_project(tmp_path_factory.mktemp(name) / "project")


def wait_until(condition, seconds: float = 60.0):
    """The first true value of ``condition``; fails the test when none comes in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")


def kill_group(process: subprocess.Popen, sign: int = signal.SIGKILL) -> None:
    os.killpg(process.pid, sign)


@pytest.fixture(scope="session")
def oldest(tmp_path_factory) -> Path:
    """A folder with the oldest transformers that the package allows, to be laid over the newest; made by make test."""
    made = ROOT / ".venv" / "oldest"
    if made.exists():
        return made
    folder = tmp_path_factory.mktemp("oldest") / "site"
    packages = re.search(r"--target \$@.*\n\s*(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, *packages], check=True)
    return folder
