"""No room of the package imports one to its right, and only the worker's modules import torch."""

import sys
from pathlib import Path

import pytest

from .measure.fingerprint import closure, imports, measuring_modules

PACKAGE = Path(__file__).parents[1] / "scripts" / "speedbump"
ROOMS = ["grid", "plan", "measure", "analyse", "report"]
FILES = sorted(PACKAGE.rglob("*.py"))
WORKERS = measuring_modules()
TORCH = {"torch", "transformers", "litserve"}


def packages(file):
    """Names of the packages that a file imports from, anywhere in it."""
    return {name.partition(".")[0] for name in imports(file)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_left(file):
    room = file.relative_to(PACKAGE).parts[0]
    rank = ROOMS.index(room) if room in ROOMS else 0  # tables.py, whose columns are the axes
    for name in imports(file):
        parts = name.split(".")
        if parts[0] == "speedbump" and len(parts) > 1 and parts[1] in ROOMS:
            assert ROOMS.index(parts[1]) <= rank, f"{file.name} imports {name}"


def test_only_what_a_worker_runs_imports_torch():
    """No other module does, itself or through what it imports: the supervisor's process must not hold a device."""
    with_torch = {file for file in FILES if packages(file) & TORCH}
    assert with_torch
    for file in set(FILES) - set(WORKERS):
        assert not with_torch & set(closure([file])), f"{file.name} would import torch"


def test_a_worker_needs_no_package_that_only_the_pipeline_has():
    """Its Python is a stack's, which has torch, transformers and psutil, and litserve where a cell asks for it."""
    outside = set().union(*map(packages, WORKERS)) - set(sys.stdlib_module_names)
    assert outside == {*TORCH, "psutil", "speedbump"}


def test_the_report_measures_nothing():
    for file in (PACKAGE / "report").rglob("*.py"):
        assert not any(name.startswith("speedbump.measure") for name in imports(file)), file.name
