"""Contrast of the colour tokens: axe cannot judge text inside an SVG, so the tokens are checked themselves."""

import re
from itertools import product

import pytest
from building import TEMPLATES

CSS = (TEMPLATES / "report.css").read_text(encoding="utf-8")
THEMES = {
    name: dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})", block))
    for name, block in zip(
        ("light", "dark by system", "dark by choice", "print"),
        re.findall(r"color-scheme:(?:light|dark);(--bg:[^}]*)}", CSS),
        strict=True,
    )
}
TEXT = ("ink", "ink2", "slowink", "smooth", "link")
GRAPHICS = ("normal", "slow", "off", "published", "ink3")
BAND = 0.14 + 0.07
"""Opacity of the slow colour behind the label of a regime, at most."""

Colour = tuple[float, float, float]


def parse(text: str) -> Colour:
    digits = text.removeprefix("#")
    digits = "".join(digit * 2 for digit in digits) if len(digits) == 3 else digits
    red, green, blue = (int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4))
    return red, green, blue


def luminance(colour: Colour) -> float:
    """Relative luminance as WCAG 2 defines it."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def blend(over: Colour, under: Colour, opacity: float) -> Colour:
    red, green, blue = (opacity * a + (1 - opacity) * b for a, b in zip(over, under, strict=True))
    return red, green, blue


@pytest.mark.parametrize(("theme", "token"), list(product(THEMES, TEXT)))
def test_text_can_be_read(theme: str, token: str) -> None:
    tokens = THEMES[theme]
    assert contrast(parse(tokens[token]), parse(tokens["bg"])) >= 4.5


@pytest.mark.parametrize(("theme", "token"), list(product(THEMES, GRAPHICS)))
def test_marks_can_be_seen(theme: str, token: str) -> None:
    tokens = THEMES[theme]
    assert contrast(parse(tokens[token]), parse(tokens["bg"])) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_label_of_a_regime_can_be_read_on_its_band(theme: str) -> None:
    tokens = {name: parse(value) for name, value in THEMES[theme].items()}
    band = blend(tokens["slow"], tokens["bg"], BAND)
    assert contrast(tokens["slowink"], band) >= 4.5
    assert contrast(tokens["slowink"], tokens["slowbg"]) >= 4.5


def test_both_dark_themes_are_one() -> None:
    assert THEMES["dark by system"] == THEMES["dark by choice"]


def test_every_theme_has_every_token() -> None:
    assert all(tokens.keys() == THEMES["light"].keys() for tokens in THEMES.values())


def test_every_colour_used_is_a_token() -> None:
    used = set(re.findall(r"var\(--(\w+)\)", CSS))
    assert used <= THEMES["light"].keys()
