"""Sixty curves of sixty lengths stay a page that opens at once."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from simulated import large
from weigh import weigh

pytestmark = pytest.mark.browser


def test_sixty_curves_of_sixty_lengths(browser: Browser, tmp_path: Path) -> None:
    found = weigh(browser, tmp_path, large(60, 60))
    assert found.page < 3_000_000
    assert found.draw_s < 60
    assert found.paint_s < 1
    assert found.live_s < 2
