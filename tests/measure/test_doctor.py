"""The eight checks of make doctor, on stand-ins of Macs: as read, otherwise, and silent."""

import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import polars as pl
import pytest

from speedbump.measure import doctor
from speedbump.measure.doctor import CHECKS, DIFFERS, ELSEWHERE, PASS, UNKNOWN, Cell, Machine, examine, this_machine

ROOT = Path(__file__).parents[2]
ASSERTIONS = """2026-01-01 12:00:00 +0100
Assertion status system-wide:
   BackgroundTask                 0
   PreventUserIdleDisplaySleep    0
   PreventSystemSleep             1
   PreventUserIdleSystemSleep     1
Listed by owning process:
   pid 612(caffeinate): [0x0000] 00:00:01 PreventUserIdleSystemSleep named: "caffeinate command-line tool"
"""
TOP = "Processes: 500 total\n\nPID    MEM\n{pid}  {mem}\n"
LEVEL = "kern.memorystatus_vm_pressure_level"
WORKS = {
    "cpu": {"computes": True, "present": True},
    "mps": {"computes": True, "present": True},
    "cuda": {"computes": False, "present": False},
}


def answers(mem="812M", assertions=ASSERTIONS):
    def ask(*command):
        if command[0] == "top":
            return TOP.format(pid=os.getpid(), mem=mem)
        return {"pmset": assertions}[command[0]]

    return ask


def measures(variables=None, tokens=None, status="stopped", lower_bound=True, e2e_s=0.3):
    def measure(name, given, device, n_gen, request_limit_s=None):
        if request_limit_s:
            rows = [{"status": status, "lower_bound": lower_bound, "e2e_s": e2e_s}, {"status": "not_run"}]
        else:
            rows = [{"status": "ok", "tokens_hash": (tokens or {}).get(device, "a1b2")}] * 2
        return Cell(pl.DataFrame(rows), {"environment": {"variables": variables or {}}})

    return measure


@contextmanager
def awake():
    yield


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(doctor.time, "sleep", lambda seconds: None)


def mac(**changes):
    falling = count(8 << 30, -doctor.BLOCK_BYTES)
    return replace(
        Machine(True, lambda: next(falling), lambda: 1, answers(), lambda: WORKS, awake, lambda: 800 << 20, measures()),
        **changes,
    )


def findings(machine):
    return {name: (finding.outcome, finding.figures) for name, finding in examine(machine)}


def test_a_mac_as_it_was_read_passes_all_eight():
    found = findings(mac())
    assert list(found) == list(CHECKS)
    assert len(found) == 8
    assert {outcome for outcome, _ in found.values()} == {PASS}
    assert all(figures and "\n" not in figures for _, figures in found.values())


@pytest.mark.parametrize(
    ("check", "changes", "outcome", "figures"),
    [
        ("counters fresh", {"free_bytes": lambda: 8 << 30}, DIFFERS, "moved at 0 of 16 reads"),
        ("guard level", {"level": lambda: None}, DIFFERS, "not readable"),
        ("guard level", {"level": lambda: 3}, DIFFERS, f"{LEVEL} is 3, expected 1, 2 or 4"),
        ("watermarks", {"measure": measures({doctor.WATERMARK: "0.0"})}, DIFFERS, "the worker had {"),
        ("probe", {"probe": lambda: {**WORKS, "mps": {"computes": False, "present": True, "why": "refused"}}}, DIFFERS,
         "mps does not: refused"),
        ("probe", {"probe": lambda: {**WORKS, "mps": {"computes": False, "present": False}}}, DIFFERS, "no mps"),
        ("sleep hold", {"ask": answers(assertions=ASSERTIONS.replace("caffeinate", "coreaudiod"))}, DIFFERS,
         "caffeinate not named"),
        ("sleep hold", {"ask": answers(assertions=ASSERTIONS.replace("SystemSleep     1", "SystemSleep     0"))},
         DIFFERS, "PreventUserIdleSystemSleep 0"),
        ("sleep hold", {"ask": answers(assertions="")}, UNKNOWN, "names none"),
        ("footprint", {"ask": answers(mem="1024M")}, DIFFERS, "footprint 800 MiB, top 1024 MiB"),
        ("footprint", {"ask": answers(mem="819200K+")}, PASS, "footprint 800 MiB, top 800 MiB"),
        ("footprint", {"ask": answers(mem="?")}, UNKNOWN, "top said nothing of this process"),
        ("footprint", {"footprint": lambda: None}, UNKNOWN, "footprint None"),
        ("tokens equal", {"measure": measures(tokens={"mps": "ffff"})}, DIFFERS, "cpu a1b2, mps ffff"),
        ("tokens equal", {"measure": measures(tokens={"mps": None, "cpu": None})}, DIFFERS, "cpu None"),
        ("tokens equal", {"probe": lambda: {**WORKS, "mps": {"computes": False}}}, UNKNOWN, "does not compute"),
        ("one stopped cell", {"measure": measures(status="ok", lower_bound=False)}, DIFFERS, "status ok"),
        ("one stopped cell", {"measure": measures(e2e_s=0.1)}, DIFFERS, "at least 0.10 s"),
    ],
)  # fmt: skip
def test_what_is_otherwise_is_told_with_its_figures(check, changes, outcome, figures):
    found = findings(mac(**changes))[check]
    assert found[0] == outcome
    assert figures in found[1]


def test_a_check_that_fails_itself_cannot_tell_and_the_others_go_on():
    def breaks(*_, **__):
        raise OSError("no such file: /Users/mallory/x")

    found = findings(mac(measure=breaks))
    assert [name for name, (outcome, _) in found.items() if outcome == UNKNOWN] == [
        "watermarks", "tokens equal", "one stopped cell"
    ]  # fmt: skip
    assert "mallory" not in str(found)


def test_elsewhere_what_applies_runs():
    found = findings(mac(is_mac=False, probe=lambda: {**WORKS, "mps": {"computes": False, "present": False}}))
    elsewhere = [name for name, (outcome, _) in found.items() if outcome == ELSEWHERE]
    assert elsewhere == ["guard level", "sleep hold", "footprint", "tokens equal"]
    assert {found[name][0] for name in CHECKS if name not in elsewhere} == {PASS}


@pytest.mark.model
def test_a_cell_is_really_stopped_here(tmp_path):
    pytest.importorskip("torch")
    machine = replace(this_machine(ROOT, tmp_path), probe=lambda: {**WORKS, "mps": {"computes": False}})
    finding = doctor.check_stop(machine)
    assert finding.outcome == PASS, finding.figures
    assert "on cpu, limit 0.2 s: status stopped, at least 0." in finding.figures


@pytest.mark.parametrize(("outcome", "code"), [(PASS, 0), (UNKNOWN, 0), (DIFFERS, 1)])
def test_the_script_prints_a_line_a_check_and_fails_where_one_differs(outcome, code):
    stand_in = (
        "import runpy, sys; sys.path.insert(0, 'scripts'); from speedbump.measure import doctor;"
        "one, two = doctor.Finding('pass'), doctor.Finding(sys.argv[1], 'x');"
        "doctor.CHECKS = {'one': lambda machine: one, 'two': lambda machine: two};"
        "sys.argv = ['doctor.py']; runpy.run_path('scripts/doctor.py', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", stand_in, outcome], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    head, *lines = done.stdout.splitlines()
    assert head.startswith("speedbump doctor: ")
    assert lines == ["1 one: pass", f"2 two: {outcome}: x"]
