"""A change to the measuring code never hides behind an old PROTOCOL, and a comment never costs a night."""

import importlib.util
import json
from pathlib import Path

from speedbump.grid.protocol import PROTOCOL

spec = importlib.util.spec_from_file_location("fingerprint", Path(__file__).with_name("fingerprint.py"))
fingerprint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fingerprint)


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


def test_comments_and_docstrings_leave_no_trace_and_code_does():
    plain = "def f(x):\n    return x + 1\n"
    told = '"""Module."""\n\n# why\ndef f(x):\n    """Doc."""\n    return (\n        x + 1\n    )\n'
    assert fingerprint.without_docstrings(plain) == fingerprint.without_docstrings(told)
    assert fingerprint.without_docstrings(plain) != fingerprint.without_docstrings(plain.replace("1", "2"))
