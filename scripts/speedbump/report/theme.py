"""How every chart looks: colours that CSS decides, axes that stay legible, scales that start where data do."""

import math
from itertools import pairwise
from typing import Any, Final

import altair as alt

HEIGHT: Final = 270
WIDE: Final = 1000
HALF: Final = 500
"""Widths in pixels of a chart alone in its row, and of one of two."""

STATES: Final = ("normal", "slow", "unclear")
STATE_COLOURS: Final = ("var(--normal)", "var(--slow)", "var(--off)")


def colour(name: str) -> str:
    """A colour token of the style sheet, so that light, dark and print need CSS alone."""
    return f"var(--{name})"


CONFIG: Final[dict[str, Any]] = {
    "background": "transparent",
    "font": "Inter, system-ui, sans-serif",
    "padding": {"left": 2, "right": 10, "top": 4, "bottom": 2},
    "view": {"stroke": None},
    "axis": {
        "labelColor": colour("ink2"),
        "titleColor": colour("ink2"),
        "gridColor": colour("grid"),
        "domain": False,
        "ticks": False,
        "labelFont": "Inter",
        "titleFont": "Inter",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 400,
        "labelPadding": 6,
        "titlePadding": 8,
        "labelOverlap": "greedy",
    },
    "text": {"font": "Inter", "fontSize": 12, "fill": colour("ink")},
    "legend": {"disable": True},
    "line": {"strokeCap": "round"},
}


def length_axis(title: str = "output length (tokens)", labels: bool = True) -> alt.X:
    """The output length along x, from parameters ``x_min``, ``x_max`` and ``x_ticks``."""
    axis = alt.Axis(
        title=title if labels else None, values=alt.ExprRef("x_ticks"), grid=False, labels=labels, format="d"
    )
    domain = [alt.ExprRef("x_min"), alt.ExprRef("x_max")]
    return alt.X("n:Q").scale(domain=domain, nice=False, zero=False).axis(axis)


def value_axis(field: str, title: str, log: bool = True) -> alt.Y:
    """A quantity along y, from parameters ``y_min``, ``y_max`` and ``y_ticks``; its title stands above the axis."""
    axis = alt.Axis(
        title=title,
        titleAngle=0,
        titleAlign="left",
        titleAnchor="end",
        titleX=-42,
        titleY=-13,
        minExtent=44,
        maxExtent=44,
        values=alt.ExprRef("y_ticks"),
        format="~g" if log else ".3~r",
    )
    domain = [alt.ExprRef("y_min"), alt.ExprRef("y_max")]
    scale = alt.Scale(type="log", domain=domain, nice=False) if log else alt.Scale(domain=domain, nice=False)
    return alt.Y(f"{field}:Q").scale(scale).axis(axis)


def state_colour(field: str = "state") -> alt.Color:
    """Colour by the state of a length: normal, slow, unclear."""
    return alt.Color(f"{field}:N").scale(domain=list(STATES), range=list(STATE_COLOURS))


def length_range(lengths: list[int], width: int) -> dict[str, Any]:
    """Parameters of ``length_axis`` for these lengths: all labelled when there is room, else round ones."""
    low, high = min(lengths), max(lengths)
    margin = (high - low) * 0.04 or max(1, low * 0.1)
    room = max(3, width // 70)
    return {"x_min": low - margin, "x_max": high + margin, "x_ticks": _length_ticks(sorted(set(lengths)), room)}


def log_range(values: list[float]) -> dict[str, Any]:
    """Parameters of a logarithmic ``value_axis``: room above and below, ticks at 1, 2 and 5 times powers of ten."""
    low, high = min(values), max(values)
    room = (high / low) ** 0.14
    low, high = low / max(1.35, room**0.4), high * max(1.6, room)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = [_tidy(m * 10.0**d) for d in decades for m in mantissas if low <= m * 10.0**d <= high]
        if len(ticks) <= 9:
            break
    return {"y_min": low, "y_max": high, "y_ticks": ticks}


def linear_range(values: list[float]) -> dict[str, Any]:
    """Parameters of a linear ``value_axis`` that starts at zero."""
    top = max(values) * 1.12 or 1.0
    step = nice_step(top / 4)
    return {"y_min": 0, "y_max": top, "y_ticks": [_tidy(step * n) for n in range(int(top / step) + 1)]}


def nice_step(step: float) -> float:
    """The next of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= step * 0.999)


def _length_ticks(lengths: list[int], room: int) -> list[int]:
    low, high = lengths[0], lengths[-1]
    narrowest = min((after - before for before, after in pairwise(lengths)), default=1)
    if len(lengths) <= room and narrowest * room >= high - low:
        return lengths
    return round_lengths(low, high, room)


def round_lengths(low: int, high: int, most: int) -> list[int]:
    """Multiples of a power of two from low to high, as many as fit into ``most``."""
    for step in (2**power for power in range(30)):
        ticks = list(range(-(-low // step) * step, high + 1, step))
        if 0 < len(ticks) <= most:
            return ticks
    return [low, high]


def _tidy(value: float) -> float:
    return float(f"{value:.6g}")
