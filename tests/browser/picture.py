"""Take the README's pictures: ``make STUDY=example && python tests/browser/picture.py``."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "report"), str(ROOT / "scripts"), str(ROOT / "tests" / "browser")]

from building import build  # noqa: E402
from conftest import CHROMIUM, FLAGS  # noqa: E402
from simulated import Line, Slow, simulate  # noqa: E402

FINE = (*range(128, 481, 32), *range(496, 641, 16), *range(672, 769, 32))
LINES = [
    Line(grid=FINE, slow=(Slow(512, 624, 10.7, confirmed=True),)),
    Line("gpt2-large", slow=(Slow(384, 384, 14.5),), per_token_s=0.02),
    Line("bloom-560m", slow=(Slow(512, 640, 4.0),), per_token_s=0.03),
    Line("gpt2", per_token_s=0.008),
    Line("gpt2-medium", "cpu", per_token_s=0.04),
]


def main() -> None:
    title = "Simulated curves, to show what a report looks like"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        simulated = build(simulate(Path(folder), LINES, title=title))
        take(browser, simulated, "header", 1, "report.png")
        take(browser, ROOT / "results" / "studies" / "example" / "site", "#latency", 3, "example.png")
        browser.close()


def take(browser: Browser, site: Path, top: str, last: int, name: str) -> None:
    """A picture of a report from an element to that figure of the latencies, into docs."""
    page = browser.new_page(viewport={"width": 1200, "height": 5000})
    page.goto((site / "index.html").as_uri())
    page.wait_for_timeout(2000)
    begin, end = page.locator(top).first.bounding_box(), page.locator("#latency figure").nth(last).bounding_box()
    assert begin is not None
    assert end is not None
    clip = {"x": 0, "y": begin["y"], "width": 1200, "height": end["y"] + end["height"] + 16 - begin["y"]}
    page.screenshot(path=ROOT / "docs" / name, clip=clip)  # type: ignore[arg-type]
    page.close()


if __name__ == "__main__":
    main()
