"""The gate: what fails it, and by which exit status."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from building import ROOT, build
from simulated import MACHINE, STACK, Line, Slow, simulate

from speedbump.grid.machine import find_machine
from speedbump.grid.stack import find_stack
from speedbump.tables import FAULTS, write_table

NEW, NEWER = (STACK.replace("2.8.0", version) for version in ("2.9.0", "2.10.0"))
GRID = tuple(range(128, 769, 32))
REGIME = (Slow(512, 608, 8.0),)


def gate(study: Path, *arguments: str) -> tuple[int, list[str]]:
    script = [sys.executable, str(ROOT / "scripts/gate.py"), str(study), *arguments]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three stacks: the second is slower everywhere, the third as the second but for a new regime of one curve."""
    lines = [Line(grid=GRID), Line(grid=GRID, stack=NEW, per_token_s=0.0125 * 1.3)]
    lines += [Line(grid=GRID, stack=NEWER, per_token_s=0.0125 * 1.3, slow=REGIME)]
    lines += [Line("gpt2", grid=GRID, stack=stack) for stack in (STACK, NEW, NEWER)]
    folder = simulate(tmp_path_factory.mktemp("upgraded"), lines)
    build(folder)
    return folder


def test_a_new_slow_regime_fails(upgraded: Path) -> None:
    status, lines = gate(upgraded)
    assert status == 1
    assert len(lines) == 1, "one line a finding; the lengths inside it are not told again"
    assert lines[0].startswith("slower: GPT-2 Medium on MPS: new slow regime at 512–608 tokens, ")


def test_a_named_pair_and_a_limit(upgraded: Path) -> None:
    status, lines = gate(upgraded, "--pair", "torch-2.8", "torch-2.9")
    assert (status, len(lines)) == (1, 1)
    assert lines[0].startswith("slower: GPT-2 Medium on MPS: normal lengths take 1.3×")
    assert gate(upgraded, "--pair", "torch-2.8", "torch-2.9", "--slower", "1.5") == (
        0,
        ["nothing became slower: 2 curves compared"],
    )


def test_a_stack_that_is_none_is_named(upgraded: Path) -> None:
    status, (line,) = gate(upgraded, "--pair", "torch-2.7", "torch-2.9")
    assert status == 2
    assert line.startswith("torch-2.7: none of the stacks compared, which are: macos-14.8_torch-2.8.0")


def test_what_became_faster_passes(tmp_path: Path) -> None:
    simulate(tmp_path, [Line(grid=GRID, slow=REGIME), Line(grid=GRID, stack=NEW)])
    build(tmp_path)
    assert gate(tmp_path)[0] == 0
    assert gate(tmp_path / "site" / "summary.json")[0] == 0


def test_one_stack_is_nothing_to_compare(tmp_path: Path) -> None:
    build(simulate(tmp_path, [Line()]))
    assert gate(tmp_path) == (
        3,
        ["nothing to compare: no curve was measured under two stacks of one machine, the older named first"],
    )


def test_what_cannot_be_told_is_neither_passed_nor_failed(tmp_path: Path) -> None:
    build(simulate(tmp_path, [Line(grid=(128, 256)), Line(grid=(384, 512), stack=NEW)]))
    status, (line,) = gate(tmp_path)
    assert status == 3
    assert line.startswith("can't tell: GPT-2 Medium on MPS: No length was measured on both")


def test_a_newest_stack_that_measured_nothing_is_not_passed_over(tmp_path: Path) -> None:
    lines = [Line(grid=GRID), Line(grid=GRID, stack=NEW)]
    build(simulate(tmp_path, lines, machine=MACHINE, stacks=[NEWER]))
    assert gate(tmp_path) == (3, [f"can't tell: GPT-2 Medium on MPS: not measured with {NEWER}"])
    assert json.loads((tmp_path / "site" / "summary.json").read_text())["upgrade"] is None
    assert gate(tmp_path, "--pair", "torch-2.8", "torch-2.9")[0] == 0


def test_an_environment_that_could_not_be_made_is_a_doubt(tmp_path: Path) -> None:
    simulate(tmp_path, [Line(grid=GRID), Line(grid=GRID, stack=NEW)])
    fault = {"file": "x.json", "cell": None, "problem": "no environment", "message": "torch 2.10.0: no such version"}
    write_table(pl.DataFrame([fault], schema=FAULTS.schema), FAULTS, tmp_path / "faults.parquet")
    build(tmp_path)
    assert gate(tmp_path) == (3, ["can't tell: no environment of torch 2.10.0: no such version"])


def test_a_device_that_computes_no_more_is_a_doubt(tmp_path: Path) -> None:
    build(
        simulate(tmp_path, [Line(grid=GRID), Line(device="cpu", grid=GRID), Line(device="cpu", grid=GRID, stack=NEW)])
    )
    assert gate(tmp_path) == (3, [f"can't tell: GPT-2 Medium on MPS: not measured with {NEW}"])


def test_a_report_of_before_the_upgrade_is_refused(tmp_path: Path) -> None:
    here = find_machine()
    lines = [Line(grid=GRID, machine=here), Line(grid=GRID, machine=here, stack=NEW)]
    build(simulate(tmp_path, lines, machine=here, stacks=[NEW]))
    status, (line,) = gate(tmp_path)
    assert status == 2
    assert f"of before {find_stack()}: run the study first" in line
    assert gate(tmp_path, "--pair", "torch-2.8", "torch-2.9")[0] == 0
    build(simulate(tmp_path, lines, machine=here, stacks=[NEW], listed=True))
    assert gate(tmp_path)[0] == 0


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"verdict": "smooth"})])
def test_a_broken_summary_is_no_regression(tmp_path: Path, text: str) -> None:
    (tmp_path / "summary.json").write_text(text)
    status, lines = gate(tmp_path / "summary.json")
    assert (status, len(lines)) == (2, 1)
    assert "summary.json" in lines[0]
