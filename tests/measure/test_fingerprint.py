"""A change to the measuring code never hides behind an old PROTOCOL, and a comment never costs a night."""

import json
import shutil

import pytest

from speedbump.grid.protocol import PROTOCOL

from . import fingerprint


def test_the_measuring_code_is_the_recorded_one():
    last = json.loads(fingerprint.RECORD.read_text())[-1]
    assert (last["protocol"], last["fingerprint"]) == (PROTOCOL, fingerprint.fingerprint()), (
        "the measuring code changed: raise PROTOCOL in grid/protocol.py if a measurement can change, "
        'then run: python tests/measure/fingerprint.py "why"'
    )


def test_every_entry_has_a_reason_and_protocols_never_fall():
    history = json.loads(fingerprint.RECORD.read_text())
    assert all(entry["reason"] for entry in history)
    protocols = [entry["protocol"] for entry in history]
    assert protocols == sorted(protocols)


def test_a_sleep_in_a_captured_step_changes_it(tmp_path):
    before = "            position.add_(1)\n"
    assert changed(tmp_path, "fixed", lambda text: text.replace(before, f"            time.sleep(0.01)\n{before}"))


@pytest.mark.parametrize("module", ["profile", "ballast", "failure", "stack", "tree", "mps", "served", "server"])
def test_a_change_to_anything_that_the_worker_may_import_changes_it(tmp_path, module):
    assert changed(tmp_path, module, lambda text: f"{text}\nCHANGED = True\n")


@pytest.mark.parametrize("module", ["supervisor", "rows", "lock", "progress", "environment", "installation"])
def test_a_change_on_the_supervisors_side_does_not(tmp_path, module):
    assert not changed(tmp_path, module, lambda text: f"{text}\nCHANGED = True\n")


def changed(folder, module, edit):
    """Whether the fingerprint changes with this edit of a module."""
    shutil.copytree(fingerprint.ROOT / "scripts" / "speedbump", folder / "speedbump")
    assert fingerprint.fingerprint(folder) == fingerprint.fingerprint()
    file = folder / "speedbump" / "measure" / f"{module}.py"
    before = file.read_text()
    file.write_text(edit(before))
    assert file.read_text() != before
    return fingerprint.fingerprint(folder) != fingerprint.fingerprint()


def test_comments_and_docstrings_leave_no_trace_and_code_does():
    plain = "def f(x):\n    return x + 1\n"
    told = '"""Module."""\n\n# why\ndef f(x):\n    """Doc."""\n    return (\n        x + 1\n    )\n'
    assert fingerprint.without_docstrings(plain) == fingerprint.without_docstrings(told)
    assert fingerprint.without_docstrings(plain) != fingerprint.without_docstrings(plain.replace("1", "2"))
