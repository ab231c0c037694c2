"""No room of the package imports one to its right, and only the worker's modules import torch."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "scripts" / "speedbump"
ROOMS = ["grid", "plan", "measure", "analyse", "report"]
FILES = sorted(PACKAGE.rglob("*.py"))


def imports(file):
    """Names of the modules a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_go_left(file):
    room = file.relative_to(PACKAGE).parts[0]
    rank = ROOMS.index(room) if room in ROOMS else 0  # tables.py, whose columns are the axes
    for name in imports(file):
        parts = name.split(".")
        if parts[0] == "speedbump" and len(parts) > 1 and parts[1] in ROOMS:
            assert ROOMS.index(parts[1]) <= rank, f"{file.name} imports {name}"
        if parts[0] in ("torch", "transformers"):
            assert room == "measure", f"{file.name} imports {name}"


def test_the_report_measures_nothing():
    for file in (PACKAGE / "report").rglob("*.py"):
        assert not any(name.startswith("speedbump.measure") for name in imports(file)), file.name
