"""What a claim comes to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from speedbump.analyse.claims.evidence import Point, Series
from speedbump.analyse.confidence import Interval

HOLDS = "holds"
DIFFERS = "differs"
CANNOT_TELL = "can't tell"


@dataclass(frozen=True)
class Answer:
    """outcome: holds, differs or can't tell.  values: in the claim's unit.  between: what stands between them in
    text.  interval: 95 %, of a single value, where repeats tell it.  why: what the outcome rests on.
    """

    outcome: str
    why: str
    values: tuple[float, ...] = ()
    between: str = " "
    interval: tuple[float, float | None] | None = None


def above(ratio: Interval | None, least: float) -> str:
    """Whether a ratio lies above ``least``, its whole interval considered."""
    if ratio is None:
        return CANNOT_TELL
    if ratio.low > least:
        return HOLDS
    return DIFFERS if ratio.high < least else CANNOT_TELL


def shown(ratio: Interval | None, *points: Point) -> tuple[float, float | None] | None:
    """The ratio's interval, where the spread of all its points was measured."""
    if ratio is None or not all(point.repeated for point in points):
        return None
    return ratio.low, None if math.isnan(ratio.high) else ratio.high


def values_of(ratio: Interval | None) -> tuple[float, ...]:
    return () if ratio is None else (ratio.value,)


def digits(value: float) -> str:
    """Three significant digits, and every one before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def basis(ratio: Interval | None, *points: Point) -> str:
    """``95 % from 8.1 to 11.0``, and where that comes from."""
    if ratio is None:
        return "stopped before it was done, so that nothing can be said over it"
    high = "no upper end, for it was stopped" if math.isnan(ratio.high) else digits(ratio.high)
    repeated = all(point.repeated for point in points)
    return f"95 % from {digits(ratio.low)} to {high}" + ("" if repeated else ", with an assumed spread of repeats")


def without_regime(series: Series) -> Answer:
    """The answer on a regime where the series has none."""
    if series.verdict == "smooth":
        return Answer(DIFFERS, f"{series.model} has no slow regime from {series.span()}")
    return Answer(CANNOT_TELL, f"{series.model} from {series.span()} is {series.verdict}: {series.reason}")


def verdicts(every: Iterable[Series]) -> str:
    """``gpt2: smooth; gpt2-medium: slow regimes``."""
    return "; ".join(f"{series.model}: {series.verdict}" for series in every)
