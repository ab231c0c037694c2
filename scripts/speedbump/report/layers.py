"""Layers that several charts share. Data sets: ``curve``, ``repeats``, ``spans`` (see ``points``)."""

import altair as alt

from speedbump.report.theme import colour, state_colour

Layers = list[alt.Chart]


def chart_of(name: str) -> alt.Chart:
    """A chart of the named data set, which is put in when it is drawn."""
    return alt.Chart(alt.NamedData(name=name))


def span_layers(x: alt.X, label: bool = True) -> Layers:
    """Slow regimes as bands: the surely slow core dark, the bracket in which the edge lies light."""
    spans = chart_of("spans")
    bands = [
        spans.transform_filter(f"datum.kind == '{kind}'")
        .mark_rect(fill=colour(fill), fillOpacity=opacity)
        .encode(x=x_of("a", x), x2="z:Q")
        for kind, fill, opacity in (("edge", "slow", 0.07), ("core", "slow", 0.14), ("suspected", "off", 0.12))
    ]
    # A band of one length has no width; a rule keeps it visible.
    rules = [
        spans.transform_filter(f"datum.a == datum.z && datum.kind == '{kind}'")
        .mark_rule(stroke=colour(stroke), strokeOpacity=0.3, strokeWidth=6)
        .encode(x=x_of("a", x))
        for kind, stroke in (("core", "slow"), ("suspected", "off"))
    ]
    layers = [*bands, *rules]
    if label:
        text = (
            spans.transform_filter("datum.label != ''")
            .transform_calculate(middle="(datum.a + datum.z) / 2")
            .mark_text(baseline="top", fill=colour("slowink"), fontWeight=600)
            .encode(x=x_of("middle", x), y=alt.value(2), text="label:N")
        )
        layers.append(text)
    return layers


def x_of(field: str, like: alt.X) -> alt.X:
    """The x channel of another field on the same scale and axis."""
    new = like.copy()
    new.shorthand = f"{field}:Q"
    return new


def trend_layers(x: alt.X, y: alt.Y, field: str = "e", low: str | None = "elo", high: str | None = "ehi") -> Layers:
    """What the normal trend expects: a dashed line in its 95 % band."""
    curve = chart_of("curve")
    line = curve.transform_filter(f"datum.{field} != null")
    layers = []
    if low and high:
        band = line.mark_area(fill=colour("ink3"), fillOpacity=0.12)
        layers.append(band.encode(x=x, y=y_of(low, y), y2=f"{high}:Q"))
    dashed = line.mark_line(stroke=colour("ink3"), strokeDash=[4, 4], strokeWidth=1.25)
    return [*layers, dashed.encode(x=x, y=y_of(field, y))]


def noticed_layer(x: alt.X, y: alt.Y) -> alt.Chart:
    """From which latency on a length would have been noticed, had it alone been slow: a dotted line."""
    layer: alt.Chart = (
        chart_of("curve")
        .transform_filter("datum.t != null")
        .mark_line(stroke=colour("ink3"), strokeDash=[1, 3], strokeWidth=1.5, strokeCap="round")
        .encode(x=x, y=y_of("t", y), detail="piece:N")
    )
    return layer


def y_of(field: str, like: alt.Y) -> alt.Y:
    """The y channel of another field on the same scale and axis."""
    new = like.copy()
    new.shorthand = f"{field}:Q"
    return new


def line_layer(x: alt.X, y: alt.Y, field: str) -> alt.Chart:
    """A line through lengths of one state; it breaks at every edge of a regime and where nothing was measured."""
    layer: alt.Chart = (
        chart_of("curve")
        .transform_filter(f"datum.{field} != null")
        .mark_line(strokeWidth=1.25, strokeOpacity=0.6)
        .encode(x=x, y=y_of(field, y), detail="piece:N", color=state_colour())
    )
    return layer


def interval_layer(x: alt.X, y: alt.Y, low: str, high: str) -> alt.Chart:
    """The 95 % interval as a wide pale rule."""
    layer: alt.Chart = (
        chart_of("curve")
        .transform_filter(f"datum.{low} != null && datum.{high} != null")
        .mark_rule(strokeWidth=7, opacity=0.32)
        .encode(x=x, y=y_of(low, y), y2=f"{high}:Q", color=state_colour())
    )
    return layer


def repeat_layer(x: alt.X, y: alt.Y) -> alt.Chart:
    """Every repeat as a small dot, beside its length so that it can be told from the centre."""
    layer: alt.Chart = (
        chart_of("repeats")
        .mark_circle(size=14, opacity=0.55, xOffset=8)
        .encode(x=x, y=y_of("y", y), color=state_colour())
    )
    return layer


def point_layer(
    x: alt.X, y: alt.Y, field: str, tooltip: list[alt.Tooltip], texts: dict[str, str], size: int = 46
) -> alt.Chart:
    """The centre of each length; a triangle where it is only known to be at least that. texts: for the tooltip."""
    layer: alt.Chart = (
        chart_of("curve")
        .transform_filter(f"datum.{field} != null")
        .transform_calculate(**texts)
        .mark_point(filled=True, size=size, opacity=1, stroke=colour("bg"), strokeWidth=1)
        .encode(
            x=x,
            y=y_of(field, y),
            color=state_colour(),
            shape=alt.Shape("bound:N").scale(domain=[False, True], range=["circle", "triangle-up"]),
            tooltip=tooltip,
        )
    )
    return layer


def tooltip_text(field: str, unit: str, missing: str = "not measured", prefix: str = "''") -> str:
    """A Vega expression for a number as text: one that is missing would be formatted as zero."""
    return f"datum.{field} == null ? '{missing}' : {prefix} + format(datum.{field}, '.3~r') + '{unit}'"


AT_LEAST = "(datum.bound ? 'at least ' : '')"
LATENCY_TEXTS = {
    "latency_text": tooltip_text("y", " s", prefix=AT_LEAST),
    "interval_text": tooltip_text("hi", " s", missing="none", prefix="format(datum.lo, '.3~r') + ' to '"),
    "expected_text": tooltip_text("e", " s", missing="no trend"),
    "noticed_text": tooltip_text("t", " s", missing="not known"),
    "factor_text": tooltip_text("f", "×", missing="no trend", prefix=AT_LEAST),
}


def tip(field: str, title: str) -> alt.Tooltip:
    """One line of a tooltip, from text."""
    return alt.Tooltip(f"{field}:N", title=title)


LENGTH_TIP = alt.Tooltip("n:Q", title="output length", format="d")
