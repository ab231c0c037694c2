"""Environments by pip from a folder of small wheels, and the choice between uv and pip."""

import os
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

from speedbump.grid.environments import Definition
from speedbump.measure import installation
from speedbump.measure.installation import find_installers, last_word, make_environment

COMPUTES = {"cpu": {"computes": True, "present": True}}


def write_wheel(folder, name, version):
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for module in ("__init__.py", "version.py"):
            wheel.writestr(f"{name}/{module}", f'__version__ = "{version}"\n')
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder with all that is needed, and no other place to look in."""
    folder = tmp_path / "wheels"
    write_wheel(folder, "torch", "9.9.9+own")
    write_wheel(folder, "transformers", "8.8.8")
    write_wheel(folder, "psutil", psutil.__version__)
    write_wheel(folder, "extra", "1.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "scripts"))
    return folder


def define(wheels, **changes):
    known = {"machine": "m", "python": "cpython-311", "torch": "9.9.9", "transformers": "8.8.8", "index": None}
    lists = {"extra_index": (), "find_links": (str(wheels),), "packages": ("extra",)}
    return Definition(**{**known, **lists, **changes})


def test_the_stack_is_what_was_installed_and_the_lock_makes_the_same_again(wheels, tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "probe_devices", lambda python: COMPUTES)
    monkeypatch.chdir(tmp_path)
    folder, lock, log = Path("environment"), Path("x.lock"), Path("x.log")
    made = make_environment(define(wheels), folder, lock, log)
    assert made.failed is None, log.read_text()
    assert made.stack.endswith("_torch-9.9.9+own_transformers-8.8.8")
    assert made.packages == ("extra==1.0", f"psutil=={psutil.__version__}", "torch==9.9.9+own", "transformers==8.8.8")
    assert made.installer.startswith("pip ")
    assert lock.read_text().split() == list(made.packages)
    write_wheel(wheels, "extra", "2.0")
    (folder / "left over").touch()
    again = make_environment(define(wheels), folder, lock, log)
    assert again.packages == made.packages
    assert not (folder / "left over").exists()


def test_what_cannot_be_installed_is_said_in_a_line(wheels, tmp_path):
    made = make_environment(define(wheels, transformers="0.0.99"), tmp_path / "e", tmp_path / "l", tmp_path / "x.log")
    assert made.failed == "pip: No matching distribution found for transformers==0.0.99"
    assert list((tmp_path / "e").iterdir()) == []
    assert not (tmp_path / "l").exists()


def test_a_torch_that_does_not_compute_makes_no_stack(wheels, tmp_path):
    made = make_environment(define(wheels), tmp_path / "e", tmp_path / "l", tmp_path / "x.log")
    assert made.failed.startswith("torch does not compute: ")
    assert str(tmp_path) not in made.failed


@pytest.fixture
def uv(tmp_path, monkeypatch):
    """A stand-in for uv on the path, and a pip that was told nothing."""
    tool = tmp_path / "bin" / "uv"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho uv 0.9.9\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    for name in os.environ:
        if name.startswith(("PIP_", "UV_")) and name != "PIP_CONFIG_FILE":
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, ["uv", "pip"]),
        ({"PIP_FIND_LINKS": "wheels"}, ["pip"]),
        ({"PIP_EXTRA_INDEX_URL": "https://example.org/simple"}, ["pip"]),
        ({"PIP_TIMEOUT": "9"}, ["uv", "pip"]),
        ({"PIP_FIND_LINKS": "wheels", "UV_FIND_LINKS": "wheels"}, ["uv", "pip"]),
    ],
)
def test_uv_first_unless_only_pip_was_told_where_to_look(uv, monkeypatch, variables, names):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert [installer.name.split()[0] for installer in find_installers("python")] == names


@pytest.mark.parametrize(
    ("output", "word"),
    [
        (
            "Looking in links\nERROR: first\nERROR: No matching distribution found for a==1\n\n",
            "No matching distribution found for a==1",
        ),
        (
            "Using Python 3.11\n  × No solution found:\n  ╰─▶ Because there is no\n      version of a==1, no.\n",
            "No solution found: Because there is no version of a==1, no.",
        ),
        ("error: Failed to fetch\n", "error: Failed to fetch"),
        ("", ""),
    ],
)
def test_the_last_word_of_an_installer(output, word):
    assert last_word(output) == word


def test_a_python_of_another_environment_does_not_see_pythonpath(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    assert installation.environment_of(sys.executable)["PYTHONPATH"] == "somewhere"
    assert "PYTHONPATH" not in installation.environment_of("environment/bin/python")
