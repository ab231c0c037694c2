"""Which Python make builds its environment from, and the one line that it ends with where none will do."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("check_python", ROOT / "scripts" / "check_python.py")
check_python = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_python)

TOOLS = ("sh", "dirname", "mkdir", "touch", "sed", "chmod", "ln", "rm")
PYTHON = """#!/bin/sh
# Python {version} on {machine}; its venv is a folder with a link to it.
if [ "$1" = -m ]; then
  for last; do :; done
  case "$*" in *--clear*) rm -r "$last";; esac
  mkdir -p "$last/bin"; ln -sf "$0" "$last/bin/python"; exit 0
fi
exec {python} - "$@" <<'END'
import platform, runpy, subprocess, sys
sys.version_info = {version}
platform.system = lambda: "{system}"
platform.machine = lambda: "{machine}"
values = {sysctl}
subprocess.check_output = lambda command, **_: values[command[-1]].encode()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
END
"""
MAC = {"hw.optional.arm64": "1", "kern.osproductversion": "15.5"}


def ask(**values):
    return lambda name: {**MAC, **values}.get(name, "")


@pytest.mark.parametrize(
    ("version", "system", "machine", "values", "why"),
    [
        ((3, 11), "Linux", "x86_64", {}, None),
        ((3, 14), "Darwin", "arm64", {}, None),
        ((3, 14), "Darwin", "arm64", {"kern.osproductversion": "26.0"}, None),
        ((3, 12), "Darwin", "arm64", {"kern.osproductversion": ""}, None),
        ((3, 9), "Darwin", "arm64", {}, "Python 3.9 is too old"),
        ((3, 10), "Linux", "x86_64", {}, "Python 3.10 is too old"),
        ((3, 12), "Darwin", "arm64", {"kern.osproductversion": "13.6.1"}, "macOS 13.6.1 is too old: it needs macOS 14"),
        ((3, 12), "Darwin", "x86_64", {}, "built for Intel and runs under Rosetta"),
        ((3, 12), "Darwin", "x86_64", {"hw.optional.arm64": "0"}, "this Mac has an Intel processor"),
        ((3, 12), "Darwin", "x86_64", {"hw.optional.arm64": ""}, "this Mac has an Intel processor"),
    ],
)
def test_what_torch_and_speedbump_need(version, system, machine, values, why):
    found = check_python.fault(version, system, machine, ask(**values))
    assert found is None if why is None else why in found


def test_old_pythons_can_read_it():
    ast.parse((ROOT / "scripts" / "check_python.py").read_text(), feature_version=(3, 4))


@pytest.fixture
def project(tmp_path):
    """A project that has no environment yet, and a folder for Pythons that is all of PATH."""
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool))
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config", ignore=shutil.ignore_patterns("bundles", "models"))
    (tmp_path / "scripts").mkdir()
    for name in ("check_python.py", "choose_python.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    return tmp_path


def add(project, name, version=(3, 12, 0), system="Darwin", machine="arm64", **sysctl):
    file = project / "bin" / name
    values = {**MAC, **sysctl}
    file.write_text(
        PYTHON.format(version=version, system=system, machine=machine, sysctl=values, python=sys.executable)
    )
    file.chmod(0o755)


def make(project, *arguments):
    """GNU make's own file by path, so that nothing but the project's folder is on PATH."""
    apart = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "PYTHON"}
    command = [shutil.which("make"), ".venv/python", *arguments]
    return subprocess.run(
        command, cwd=project, env={**apart, "PATH": str(project / "bin")}, capture_output=True, text=True
    )


needs_make = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


@needs_make
def test_python3_where_it_will_do(project):
    add(project, "python3", (3, 11, 2))
    add(project, "python3.14", (3, 14, 0))
    assert make(project).stdout == "python3 -m venv .venv\n"


@needs_make
def test_else_the_newest_that_will(project):
    add(project, "python3", (3, 9, 6))  # Apple's own
    for minor in (11, 13):
        add(project, f"python3.{minor}", (3, minor, 0))
    add(project, "python3.14", (3, 14, 0), machine="x86_64")
    assert make(project).stdout == "python3.13 -m venv .venv\n"


@needs_make
@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"version": (3, 9, 6)}, "python3: Python 3.9 is too old: it needs 3.11 or newer"),
        ({"machine": "x86_64", "hw.optional.arm64": "0"}, "python3: this Mac has an Intel processor"),
        ({"machine": "x86_64"}, "python3: this Python is built for Intel and runs under Rosetta"),
        ({"kern.osproductversion": "13.7"}, "python3: macOS 13.7 is too old"),
    ],
)
def test_where_none_will_one_line_says_why(project, given, line):
    add(project, "python3", **given)
    refused = make(project)
    said = [text for text in refused.stderr.splitlines() if text.startswith("speedbump: ")]
    assert (refused.returncode, len(said)) == (2, 1)
    assert said[0].startswith(f"speedbump: {line}")
    assert "Traceback" not in refused.stderr
    assert not (project / ".venv").exists()


@needs_make
def test_without_any_python_the_line_says_so(project):
    assert "speedbump: python3 is missing; install Python 3.11 or newer" in make(project).stderr
    assert "speedbump: python3.12 is missing" in make(project, "PYTHON=python3.12").stderr


@needs_make
def test_who_names_one_gets_that_one(project):
    add(project, "python3", (3, 9, 6))
    add(project, "python3.12")
    assert "Python 3.9 is too old" in make(project, "PYTHON=python3").stderr
    assert make(project, "PYTHON=python3.12").stdout == "python3.12 -m venv .venv\n"


@needs_make
def test_an_environment_whose_python_is_gone_is_made_anew(project):
    add(project, "python3.12")
    assert make(project).returncode == 0
    assert make(project).stdout.strip().endswith("is up to date.")
    (project / ".venv" / "old-package").touch()
    (project / "bin" / "python3.12").unlink()  # as Homebrew does
    add(project, "python3.13", (3, 13, 0))
    again = make(project)
    assert again.returncode == 0
    assert "speedbump: the Python that .venv was made from is gone; making .venv anew" in again.stderr
    assert again.stdout == "python3.13 -m venv .venv\n"
    assert not (project / ".venv" / "old-package").exists()
    assert make(project).stdout.strip().endswith("is up to date.")
