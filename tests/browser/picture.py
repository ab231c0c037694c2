"""Take the README's picture of a report, of simulated curves: ``python tests/browser/picture.py``."""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

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
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        title = "Simulated curves, to show what a report looks like"
        page_file = build(simulate(Path(folder), LINES, title=title)) / "index.html"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1200, "height": 2000})
        page.goto(page_file.as_uri())
        page.wait_for_timeout(2000)
        figures = page.locator("#latency figure").nth(1).bounding_box()
        assert figures is not None
        clip = {"x": 0, "y": 0, "width": 1200, "height": figures["y"] + figures["height"] + 16}
        page.screenshot(path=ROOT / "docs" / "report.png", clip=clip)  # type: ignore[arg-type]
        browser.close()


if __name__ == "__main__":
    main()
