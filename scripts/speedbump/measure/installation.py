"""Environments made by uv or pip: a virtual environment with the versions that a stack names, and what it came to."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from speedbump.grid.environments import Definition, Made
from speedbump.grid.stack import StackError, environment_of, find_stack
from speedbump.measure.devices import probe_devices
from speedbump.measure.privacy import without_paths

_LIST = (
    "import importlib.metadata as m, json;"
    "print(json.dumps(sorted({f'{d.name}=={d.version}' for d in m.distributions()}, key=str.lower)))"
)
_PLACES = re.compile(r"(?:^|[.:])(?:index[-_]url|extra[-_]index[-_]url|find[-_]links|no[-_]index)=", re.MULTILINE)
_UV_PLACES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_LONGEST_MESSAGE = 300


class InstallError(Exception):
    """An installer gave up; the message is its last word, one line."""


@dataclass(frozen=True)
class Installer:
    """make: the command that makes an empty environment, its folder left out.  install: what installs into it."""

    name: str
    make: tuple[str, ...]
    install: tuple[str, ...]


def make_environment(definition: Definition, folder: Path, lock: Path, log: Path) -> Made:
    """Make the environment in ``folder``, whatever was there. What goes wrong is in the answer, and never raised.

    lock: requirements of all that is installed, one a line; where the file is there, the environment is made by it, so
    that one made again has the same packages, else it is written.  log: keeps what the installers print.
    """
    python = folder / "bin" / "python"
    try:
        installer = _install(definition, folder, python, lock, log)
        packages = _packages(python)
        stack = find_stack(str(python))
        if not re.fullmatch(definition.stack_pattern, stack):
            raise StackError(f"{stack} was installed")
        devices = probe_devices(str(python))
        if not devices["cpu"]["computes"]:
            raise StackError(f"torch does not compute: {devices['cpu'].get('why')}")
    except (InstallError, StackError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return Made(title=definition.title, failed=_one_line(str(error)))
    lock.write_text("".join(f"{package}\n" for package in packages))
    return Made(
        title=definition.title,
        stack=stack,
        python=str(python),
        installer=installer,
        packages=packages,
        devices=devices,
    )


def _install(definition: Definition, folder: Path, python: Path, lock: Path, log: Path) -> str:
    """Try the installers in turn; the name of the one that did it. Raises InstallError with the last one's word."""
    places = [f"--index-url={definition.index}"] if definition.index else []
    places += [f"--extra-index-url={index}" for index in definition.extra_index]
    places += [f"--find-links={place}" for place in definition.find_links]
    wanted = [*definition.requirements, f"psutil=={psutil.__version__}"]
    if lock.exists():
        wanted = ["--no-deps", "--requirement", str(lock)]
    problem = ""
    for installer in find_installers(str(python)):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            _run([*installer.make, str(folder)], log)
            _run([*installer.install, *places, *wanted], log)
        except InstallError as error:
            problem = f"{installer.name.split()[0]}: {error}"
        else:
            return installer.name
    raise InstallError(problem)


def find_installers(python: str) -> Iterator[Installer]:
    """uv where it is there, then pip. pip alone where only pip has been told of an index or a wheel folder: uv would
    look past it, and download gigabytes.
    """
    uv = shutil.which("uv")
    if uv and (any(os.environ.get(name) for name in _UV_PLACES) or not _PLACES.search(_ask("pip", "config", "list"))):
        yield Installer(
            " ".join(_output([uv, "--version"]).split()[:2]),
            (uv, "venv", "--quiet", "--python", sys.executable),
            (uv, "pip", "install", "--python", python, "--index-strategy", "unsafe-best-match"),
        )
    yield Installer(
        " ".join(_ask("pip", "--version").split()[:2]) or "pip",
        (sys.executable, "-m", "venv"),
        (python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off", "--no-compile"),
    )


def _packages(python: Path) -> tuple[str, ...]:
    """All that is installed, without pip and its like, which no measurement sees."""
    listed = _output([str(python), "-c", _LIST], environment_of(str(python)))
    try:
        names = json.loads(listed)
    except ValueError:
        raise InstallError("its Python does not run") from None
    return tuple(name for name in names if name.split("==")[0] not in ("pip", "setuptools", "uv", "wheel"))


def _run(command: list[str], log: Path) -> None:
    """Raises InstallError with the last word of a command that fails; all that it prints goes to the log."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    with log.open("a") as kept:
        kept.write(without_paths(f"$ {' '.join(command)}\n{done.stdout}"))
    if done.returncode:
        raise InstallError(last_word(done.stdout) or f"ended with code {done.returncode}")


def last_word(output: str) -> str:
    """Why an installer gave up: pip's last error, or all that uv says after its cross."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors:
        return next((line for line in reversed(errors) if not line.startswith("ResolutionImpossible")), errors[-1])
    cross = next((number for number, line in enumerate(lines) if line.startswith(("×", "error:"))), len(lines) - 1)
    return " ".join(line.strip("×╰─▶│ ") for line in lines[cross:])


def _one_line(text: str) -> str:
    text = without_paths(" ".join(text.split()))
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def _ask(*module_arguments: str) -> str:
    """What a module of this Python prints; empty when it is not there."""
    return _output([sys.executable, "-m", *module_arguments])


def _output(command: list[str], environment: dict[str, str] | None = None) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
