"""What a reader meets: the page in a browser without a network."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 390, "height": 844}


@contextmanager
def opened(browser: Browser, site: Path, viewport: dict[str, int] = WIDE, **options: Any) -> Iterator[Page]:
    """The page, closed again afterwards; fails on any request but its own file, and on any console message."""
    context = browser.new_context(viewport=viewport, offline=True, **options)  # type: ignore[arg-type]
    page = context.new_page()
    noise: list[str] = []
    page.on("console", lambda message: noise.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: noise.append(str(error)))
    own = (site / "index.html").as_uri()
    page.on("request", lambda request: noise.append(request.url) if not _own(request.url, own) else None)
    page.goto(own)
    yield page
    context.close()
    assert noise == []


def _own(url: str, own: str) -> bool:
    return url.split("#")[0] == own or url.startswith("data:")


def scroll_through(page: Page) -> None:
    """Bring every chart into view and wait until it is drawn."""
    page.evaluate(
        """async () => {
            const drawn = (plot) => plot.dataset.live === "yes";
            for (const plot of document.querySelectorAll(".plot")) {
                plot.scrollIntoView({ block: "center" });
                for (let i = 0; i < 500 && !drawn(plot); i++) await new Promise((next) => setTimeout(next, 10));
                if (!drawn(plot)) throw new Error(`${plot.id} never came alive`);
            }
        }"""
    )


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_charts_come_alive_without_a_request_or_a_message(
    browser: Browser, showcase: Path, viewport: dict[str, int]
) -> None:
    with opened(browser, showcase, viewport) as page:
        scroll_through(page)
        assert page.locator(".plot[data-live=yes]").count() == page.locator(".plot").count() > 30
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_first_chart_is_static_until_vega_has_drawn_it(browser: Browser, showcase: Path) -> None:
    with opened(browser, showcase) as page:
        assert page.evaluate("typeof window.vegaEmbed") == "undefined"
        assert page.locator(".plot .static svg").count() == page.locator(".plot").count()
        scroll_through(page)
        leaked = page.evaluate("Object.keys(window).filter((name) => /^vega/.test(name))")
        assert leaked == ["vegaEmbed"]


def test_hover_says_what_was_measured(browser: Browser, showcase: Path) -> None:
    with opened(browser, showcase) as page:
        scroll_through(page)
        for plot in page.locator(".plot").all():
            plot.scroll_into_view_if_needed()
            texts = []
            for mark in plot.locator(".live .mark-symbol path, .live .mark-rect.role-mark path").all()[-3:]:
                box = mark.bounding_box()
                if box is None or box["width"] == 0:
                    continue
                page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
                page.wait_for_timeout(20)
                tooltip = page.locator("#vg-tooltip-element.visible")
                texts += [tooltip.inner_text()] if tooltip.count() else []
            name = plot.get_attribute("data-chart")
            assert texts, f"{name}: no tooltip"
            for text in texts:
                assert re.search(r"\d", text), name
                assert not re.search(r"undefined|NaN|null|Infinity", text), f"{name}: {text}"


def test_lower_bound_is_said_in_the_tooltip(browser: Browser, showcase: Path) -> None:
    with opened(browser, showcase) as page:
        scroll_through(page)
        plot = page.locator("#plot-latency-c1")
        plot.scroll_into_view_if_needed()
        last = plot.locator(".live .mark-symbol path").last.bounding_box()
        assert last is not None
        page.mouse.move(last["x"] + last["width"] / 2, last["y"] + last["height"] / 2)
        assert "at least 300 s" in page.locator("#vg-tooltip-element.visible").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("site", ["showcase", "first_look"])
def test_accessible(
    browser: Browser, site: str, viewport: dict[str, int], scheme: Any, request: pytest.FixtureRequest
) -> None:
    with opened(browser, request.getfixturevalue(site), viewport, color_scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach((element) => { element.open = true; })")
        scroll_through(page)
        result = Axe().run(page)
        assert result.violations_count == 0, result.generate_report()


def test_filters_hide_what_does_not_match(browser: Browser, showcase: Path) -> None:
    with opened(browser, showcase) as page:
        rows = page.locator(".verdict tbody tr")
        everything = rows.count()
        page.select_option("select[name=device]", "CPU")
        assert page.locator(".verdict tbody tr:visible").count() == 2
        assert page.locator("#shown").inner_text() == f"2 of {everything} curves shown"
        assert page.locator("#tokens figure:visible").count() == 0
        page.select_option("select[name=device]", "")
        assert page.locator(".verdict tbody tr:visible").count() == everything
        assert page.locator("#shown").inner_text() == ""


def test_keyboard_reaches_everything(browser: Browser, first_look: Path) -> None:
    with opened(browser, first_look) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
        reached = set()
        for _ in range(80):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('href')"))
        assert {"#lengths", "#latency", "theme", "data/budgets.csv"} <= reached


def test_theme_can_be_chosen(browser: Browser, first_look: Path) -> None:
    with opened(browser, first_look, color_scheme="light") as page:
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Switch to dark theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
        page.get_by_role("button", name="Switch to light theme").click()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_without_javascript(browser: Browser, showcase: Path) -> None:
    with opened(browser, showcase, NARROW, java_script_enabled=False) as page:
        charts = page.locator(".plot .static svg")
        assert charts.count() > 30
        for chart in charts.all()[:8]:
            assert chart.is_visible()
        assert page.locator("#filters").is_hidden()
        assert page.locator("#theme").is_hidden()
        assert "fall into a slow regime" in page.locator("h1").inner_text()


def test_prints_every_chart_whole(browser: Browser, showcase: Path, tmp_path: Path) -> None:
    with opened(browser, showcase, color_scheme="dark") as page:
        scroll_through(page)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 690, "height": 980})
        for plot in page.locator(".plot").all():
            assert plot.locator(".static svg").is_visible()
            assert not plot.locator(".live").is_visible()
            box, chart = plot.bounding_box(), plot.locator(".static svg").bounding_box()
            assert box is not None
            assert chart is not None
            assert chart["width"] <= box["width"] + 1
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.pdf(path=tmp_path / "report.pdf", format="A4", print_background=True)
    assert (tmp_path / "report.pdf").stat().st_size > 50_000


def test_links_lead_somewhere(browser: Browser, showcase: Path) -> None:
    with opened(browser, showcase) as page:
        for target in page.eval_on_selector_all(
            "a[href^='#']", "links => links.map((link) => link.getAttribute('href'))"
        ):
            assert page.locator(f"[id='{target[1:]}']").count() == 1, target
