"""Numbers, ranges and lists as a person writes them."""

import math
import re
from collections.abc import Iterable, Sequence


def seconds(value: float | None) -> str:
    """A duration to three digits: ``0.84 s``, ``12.3 s``, ``103 s``; milliseconds below a tenth of a second."""
    if value is None or not math.isfinite(value):
        return "not measured"
    return f"{digits(value * 1000)} ms" if value < 0.1 else f"{digits(value)} s"


def times(value: float) -> str:
    """A ratio: ``0.092×``, ``1.05×``, ``1.9×``, ``14.6×``, ``103×``."""
    if value < 0.095:
        return f"{value:.2g}×"
    return f"{value:.2f}×" if value < 1.095 else f"{value:.1f}×" if value < 99.5 else f"{value:.0f}×"


def interval(low: float | None, high: float | None) -> str:
    """The ends of a ratio's 95 % interval: ``10.3–14.9``, ``0.94–1.12``; empty when there is none."""
    if low is None or high is None:
        return ""
    if 0.095 <= low < 1.095 <= high < 9.95:
        return f"{low:.2f}–{high:.2f}"
    return f"{times(low)[:-1]}–{times(high)[:-1]}"


def digits(value: float, count: int = 3) -> str:
    """A number to ``count`` significant digits, without exponent, thousands marked."""
    if value == 0:
        return "0"
    places = max(0, count - 1 - math.floor(math.log10(abs(value))))
    rounded = round(value, count - 1 - math.floor(math.log10(abs(value))))
    return f"{rounded:,.{places}f}"


def gigabytes(value: float | None) -> str:
    """Bytes as decimal gigabytes."""
    return "not measured" if value is None else f"{digits(value / 1e9)} GB"


def duration(hours: float) -> str:
    """A span of work: ``4 minutes``, ``1.5 hours``."""
    if hours < 1:
        return plural(max(1, round(hours * 60)), "minute")
    rounded = round(hours, 1)
    return plural(int(rounded), "hour") if rounded == int(rounded) else f"{rounded:g} hours"


def lengths(first: int, last: int) -> str:
    """Output lengths from first to last: ``512`` or ``512–624``."""
    return f"{first}" if first == last else f"{first}–{last}"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """``1 run``, ``12,000 runs``, ``no runs``."""
    word = noun if count == 1 else several or f"{noun}s"
    return f"no {word}" if count == 0 else f"{count:,} {word}"


def listing(items: Iterable[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    parts = list(items)
    return f" {last} ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def shortened(items: Sequence[str], limit: int = 4) -> str:
    """A listing that stops after ``limit`` items and counts the rest."""
    if len(items) <= limit:
        return listing(items)
    return listing([*items[:limit], f"{len(items) - limit} more"])


PROSE = {"budget": "length", "budgets": "lengths", "cell": "run", "cells": "runs", "series": "curve"}


def prose(text: str) -> str:
    """A text of the analysis in the words that the page uses: a cell is a run, a budget an output length."""
    return re.sub(rf"\b({'|'.join(PROSE)})\b", lambda word: PROSE[word[0]], text)


def capitalised(text: str) -> str:
    """The text with its first letter in upper case, the rest untouched."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """The text as one sentence: a capital and one full stop."""
    text = capitalised(text.strip())
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
