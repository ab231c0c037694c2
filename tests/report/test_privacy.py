"""Names of people and places are taken out, and nothing else is."""

import polars as pl
import pytest

from speedbump.grid.cells import axes_of
from speedbump.report.check import leaks
from speedbump.report.privacy import COMMON_NAMES, identities, scrub, scrub_frame, scrub_values, without_private

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


MACHINE = "apple-m3-max-36gb"


@pytest.mark.parametrize("slug", [MACHINE, f"{MACHINE}~0a1b2c3d", "amd-max-24gb_nvidia-h200", f"on {MACHINE}, slow"])
def test_a_name_within_a_machines_slug_is_no_name(slug: str) -> None:
    assert scrub(slug, frozenset({"max"})) == slug
    assert leaks(slug.encode(), frozenset({"max"})) == []
    assert scrub(f"max: {slug}", frozenset({"max"})) == f"…: {slug}"
    assert leaks(f"max: {slug}".encode(), frozenset({"max"})) == ["names its user, host or home, max"]


def test_what_was_measured_is_never_changed() -> None:
    names = frozenset({"max", "gpt2", "mps"})
    place = {"machine": "max", "stack": "torch-max", "series": "gpt2.mps.0a", "cell": "gpt2.mps.8.0a"}
    row = {**axes_of({"model": "gpt2", "device": "mps", "n_gen": 8}), **place, "message": "by max"}
    assert scrub_frame(pl.DataFrame([row]), names).to_dicts() == [{**row, "message": "by …"}]
    record = {**place, "cell": {"model": "gpt2", "device": "mps"}, "environment": {"note": ["by max"]}}
    assert scrub_values(record, names) == {**record, "environment": {"note": ["by …"]}}


def test_environment_without_private_keys() -> None:
    known = {"chip": "M3", "hostname": "x", "user": "y", "home_path": "z", "torch": "2.8.0"}
    assert without_private(known) == {"chip": "M3", "torch": "2.8.0"}


def test_common_words_are_no_identity() -> None:
    assert not identities() & COMMON_NAMES
