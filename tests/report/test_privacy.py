"""Names of people and places are taken out, and nothing else is."""

import polars as pl
import pytest

from speedbump.report.check import leaks
from speedbump.report.privacy import COMMON_NAMES, identities, scrub, scrub_frame, without_private

NAMES = frozenset({"mallory", "mallorys-mac.local", "/srv/people/mallory"})


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("no such file: /Users/mallory/models/x.gguf", "no such file: ~/models/x.gguf"),
        ("'/home/eve/run.py', line 3", "'~/run.py', line 3"),
        (r"C:\Users\eve\x", r"~\x"),
        ("/root/.cache and /rooted", "~/.cache and /rooted"),
        ("at /srv/people/mallory/x on mallorys-mac.local", "at ~/x on …"),
        ("by mallory.", "by …."),
        ("mallory2 and marshmallory stay", "mallory2 and marshmallory stay"),
        ("GPT-2 Medium, MPS", "GPT-2 Medium, MPS"),
    ],
)
def test_scrub(text: str, clean: str) -> None:
    assert scrub(text, NAMES) == clean
    assert leaks(clean.encode(), NAMES) == []


def test_leaks_are_found_in_text_and_not_in_code() -> None:
    assert leaks(b"<p>mallory</p>", NAMES) == ["names its user, host or home, mallory"]
    assert leaks(b"see /home/eve/x", frozenset()) == ["names a home folder, /home/eve"]
    assert leaks(b"<style>.mallory{}</style><script>mallory()</script>", NAMES) == []


def test_frame_keeps_everything_else() -> None:
    frame = pl.DataFrame({"n": [1, 2], "message": ["/home/eve/x", None], "model": ["gpt2", "gpt2"]})
    clean = scrub_frame(frame, NAMES)
    assert clean.schema == frame.schema
    assert clean.rows() == [(1, "~/x", "gpt2"), (2, None, "gpt2")]


def test_environment_without_private_keys() -> None:
    known = {"chip": "M3", "hostname": "x", "user": "y", "home_path": "z", "torch": "2.8.0"}
    assert without_private(known) == {"chip": "M3", "torch": "2.8.0"}


def test_common_words_are_no_identity() -> None:
    assert not identities() & COMMON_NAMES
