"""Files that macOS leaves beside a user's are no models, studies, plans, runs or inputs."""

import ast
import json
import re
import shutil
from pathlib import Path

import pytest

from speedbump.grid.devices import DevicesError, devices_file, recall_devices
from speedbump.grid.listing import is_hidden, visible
from speedbump.grid.models import load_models
from speedbump.grid.study import namesakes
from speedbump.plan.refinement_plan import check_plans, runs_of_other_stacks
from speedbump.plan.upgrade_check import _earlier_stacks

ROOT = Path(__file__).parents[2]
APPLE_DOUBLE = bytes.fromhex("00051607 00020000") + b"Mac OS X        " + b"\xff\x00" * 2000
"""How an AppleDouble file begins, and bytes that are no UTF-8."""
LISTS_ITSELF = {
    "grid/listing.py": "the helper",
    "grid/machine.py": "/proc/driver, which is no folder of a user's",
    "measure/supervisor.py": "a pattern that begins with digits",
    "report/check.py": "hidden files are what it looks for",
}


def litter(folder: Path) -> None:
    """What a Mac leaves on a foreign volume: a companion of every file and folder, and what Finder writes."""
    for path in [*folder.rglob("*")]:
        path.with_name(f"._{path.name}").write_bytes(APPLE_DOUBLE)
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        path.joinpath(".DS_Store").write_bytes(b"\x00\x00\x00\x01Bud1")


def test_hidden_names_are_left_out_wherever_they_stand(tmp_path):
    for name in ("b.yaml", "a.yaml", "._a.yaml", ".git/c.yaml", "in/d.yaml", "in/.e.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert visible(tmp_path, "*.yaml") == [tmp_path / "a.yaml", tmp_path / "b.yaml"]
    assert visible(tmp_path, "**/*.yaml") == [tmp_path / name for name in ("a.yaml", "b.yaml", "in/d.yaml")]
    assert visible(tmp_path) == [tmp_path / name for name in ("a.yaml", "b.yaml", "in")]
    assert visible(tmp_path / "missing") == []
    assert visible(tmp_path / ".git") == [tmp_path / ".git" / "c.yaml"]  # the folder itself may be hidden
    assert is_hidden(Path("a/.b/c"))
    assert not is_hidden(Path("a/b.c"))


def test_models_and_studies(tmp_path):
    shutil.copytree(ROOT / "config" / "models", tmp_path / "models")
    shutil.copy(ROOT / "config" / "scan.yaml", tmp_path)
    before = load_models(tmp_path / "models")
    litter(tmp_path)
    assert load_models(tmp_path / "models") == before
    shutil.copy(tmp_path / "scan.yaml", tmp_path / "._copy.yaml")
    assert namesakes("scan", str(tmp_path / "scan.yaml")) == []


def test_plans_stacks_and_probes(tmp_path, monkeypatch):
    plan = tmp_path / "plans" / "stack" / "scan" / "1.json"
    plan.parent.mkdir(parents=True)
    plan.write_text(json.dumps({"cells": []}))
    run = tmp_path / "runs" / "mac" / "macos-15_torch-2.7.0_transformers-4.57.6" / "cell.parquet"
    run.parent.mkdir(parents=True)
    run.touch()
    litter(tmp_path)
    (run.parent.parent / ".Trashes").mkdir()
    check_plans(tmp_path / "plans", ["scan"])
    assert runs_of_other_stacks({"scan": []}, tmp_path / "runs" / "mac", tmp_path / "plans", []) == []
    newer = "macos-15_torch-2.8.0_transformers-4.57.6"
    assert _earlier_stacks(tmp_path / "runs" / "mac", {"cell"}, newer) == [run.parent.name]
    monkeypatch.chdir(tmp_path)
    known = devices_file("mac", "one")
    known.parent.mkdir(parents=True)
    known.write_text("{}")
    litter(tmp_path / "results")
    with pytest.raises(DevicesError, match=r"that mac has: one$"):
        recall_devices(devices_file("mac", "two"), None, print, lambda file, text: None)


def test_nothing_else_lists_a_folder():
    package = ROOT / "scripts" / "speedbump"
    listing = {"glob", "rglob", "iterdir", "listdir"}
    for file in [*ROOT.glob("scripts/**/*.py")]:
        names = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
        place = str(file.relative_to(package)) if file.is_relative_to(package) else str(file.relative_to(ROOT))
        if place not in LISTS_ITSELF and place != "scripts/bench_instrument.py":  # of a package's own files
            assert not names & listing, place
    for file in [ROOT / "Snakefile", *ROOT.glob("rules/*.smk")]:
        assert not re.search(r"\.(glob|rglob|iterdir|listdir)\(", file.read_text()), file.name
