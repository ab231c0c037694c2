"""Weigh reports of several sizes and write the table in docs/report.md: ``python tests/browser/weigh.py``."""

import gzip
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "report"), str(ROOT / "scripts"), str(ROOT / "tests" / "browser")]

import simulated  # noqa: E402
from building import draw, site  # noqa: E402
from conftest import CHROMIUM, FLAGS  # noqa: E402

BEGIN, END = "<!-- weights: begin -->\n", "<!-- weights: end -->\n"


@dataclass(frozen=True)
class Weight:
    """One report. Bytes of the page, plain and compressed; seconds to draw, build, paint and bring a chart alive."""

    page: int
    compressed: int
    draw_s: float
    build_s: float
    paint_s: float
    live_s: float


def weigh(browser: Browser, folder: Path, lines: list[simulated.Line]) -> Weight:
    """Simulate, draw, build and open one report."""
    simulated.simulate(folder, lines)
    started = time.monotonic()
    draw(folder)
    drawn = time.monotonic()
    index = site(folder) / "index.html"
    built = time.monotonic()
    paint_s, live_s = first_sights(browser, index)
    content = index.read_bytes()
    return Weight(len(content), len(gzip.compress(content, mtime=0)), drawn - started, built - drawn, paint_s, live_s)


def first_sights(browser: Browser, index: Path) -> tuple[float, float]:
    """Seconds to first contentful paint, and to the first live chart for a reader who goes there at once."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.add_init_script(
        """new MutationObserver((changes) => {
            if (!window.firstLive && changes.some((change) => change.target.dataset.live === "yes"))
                window.firstLive = performance.now();
        }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-live"] });"""
    )
    page.goto(f"{index.as_uri()}#latency")
    for _ in range(600):
        if page.evaluate("window.firstLive"):
            break
        page.wait_for_timeout(20)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    live = page.evaluate("window.firstLive")
    page.close()
    return paint / 1000, live / 1000


def main() -> None:
    sizes = [(1, 8), (14, 25), (60, 60), (10, 600)]
    rows = []
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for n_curves, n_lengths in sizes:
            found = weigh(browser, Path(folder) / f"{n_curves}x{n_lengths}", simulated.large(n_curves, n_lengths))
            sizes_mb = f"{found.page / 1e6:.2f} MB | {found.compressed / 1e6:.2f} MB"
            made = f"{found.draw_s:.1f} s | {found.build_s:.1f} s"
            seen = f"{found.paint_s:.2f} s | {found.live_s:.2f} s"
            rows.append(f"| {n_curves} x {n_lengths} | {sizes_mb} | {made} | {seen} |")
        browser.close()
    table = "\n".join(
        (
            "| curves x lengths | page | compressed | drawing | building | first paint | first live chart |",
            "|---|---|---|---|---|---|---|",
            *rows,
        )
    )
    path = ROOT / "docs" / "report.md"
    text = path.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    path.write_text(f"{before}{BEGIN}{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
