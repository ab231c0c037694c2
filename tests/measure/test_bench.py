"""The page that the bench writes, and the statistics on it."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import bench_instrument as bench

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
