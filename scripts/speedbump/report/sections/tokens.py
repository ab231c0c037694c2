"""Tokens per second: the dip."""

from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, of_all
from speedbump.report.layers import (
    LENGTH_TIP,
    interval_layer,
    line_layer,
    point_layer,
    span_layers,
    tip,
    tooltip_text,
    trend_layers,
)
from speedbump.report.points import short
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table, relevant
from speedbump.report.study import Study
from speedbump.report.theme import HALF, WIDE, length_axis, length_range, linear_range, value_axis
from speedbump.report.words import digits

MOST = 4
TEXTS = {
    "rate_text": tooltip_text("rate", " tokens/s"),
    "expected_text": tooltip_text("rate_e", " tokens/s", missing="no trend"),
}
TIPS = [LENGTH_TIP, tip("rate_text", "tokens per second"), tip("expected_text", "trend expects")]
KEY = (
    ("dot normal", "tokens per second, with its 95 % interval"),
    ("dot slow", "the same in a slow regime"),
    ("dash", "what the normal trend expects"),
)


def drawn(study: Study) -> list[Curve]:
    """The first curves in the report's order with a finished request."""
    return [curve for curve in study.curves if not curve.budgets.filter(~curve.budgets["lower_bound"]).is_empty()][
        :MOST
    ]


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """One chart a curve, linear from zero."""
    curves = drawn(study)
    rates = {f"tokens-{curve.key}": rate_points(curve, datasets[curve.key]) for curve in curves}
    width = WIDE if len(curves) == 1 else HALF
    return Drawing([_chart(curve, rates[f"tokens-{curve.key}"], width) for curve in curves], rates)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    curves = drawn(study)
    if not curves:
        return Section("tokens", "Tokens/s", "Tokens per second", empty="Filled by the first request that finishes.")
    total = sum(not curve.budgets.is_empty() for curve in study.curves)
    shown = of_all(curves, total)
    return Section(
        anchor="tokens",
        nav="Tokens/s",
        finding=rate_finding(curves[0]),
        lead=f"Output tokens over the time of the whole request, prefill included. Higher is better.{shown}",
        key=relevant(KEY, curves),
        figures=[Figure((f"tokens-{curve.key}",), curve.spoken, "", (curve.key,)) for curve in curves],
        caption="Lengths at which no request finished have no rate and are left out.",
        table=_table(curves),
        file="budgets",
    )


def rate_finding(curve: Curve) -> str:
    """The title: how far the rate falls inside the worst regime, or within which it stays."""
    rates = {n: tokens / latency for n, tokens, latency in _rates(curve)}
    if not rates:
        return "Tokens per second"
    regime = curve.worst
    if regime is not None and regime.worst_n_gen in rates:
        inside = rates[regime.worst_n_gen]
        normal = [n for n in rates if n < regime.first_slow] or [n for n in rates if n > regime.last_slow]
        text = f"{curve.spoken} makes {digits(inside)} tokens per second at {regime.worst_n_gen} tokens"
        if normal:
            neighbour = max(normal) if max(normal) < regime.first_slow else min(normal)
            return f"{text} and {digits(rates[neighbour])} at {neighbour}"
        return text
    low, high = min(rates.values()), max(rates.values())
    if digits(low) == digits(high):
        return f"{curve.spoken} makes {digits(low)} tokens per second"
    return f"{curve.spoken} makes {digits(low)} to {digits(high)} tokens per second"


def rate_points(curve: Curve, points: Rows) -> Rows:
    """The curve's points as tokens per second; none where latency is only a bound."""

    def rate(n: int, seconds: float | None) -> float | None:
        return short(n * curve.row["batch"] / seconds) if seconds else None

    return [
        {
            **{name: row[name] for name in ("n", "state", "bound", "piece")},
            "rate": None if row["bound"] else rate(row["n"], row["y"]),
            "rate_lo": rate(row["n"], row["hi"]),
            "rate_hi": rate(row["n"], row["lo"]),
            "rate_e": rate(row["n"], row["e"]),
        }
        for row in points
    ]


def _rates(curve: Curve) -> list[tuple[int, int, float]]:
    finished = curve.budgets.filter(~curve.budgets["lower_bound"])
    return [(n, n * curve.row["batch"], latency) for n, latency in finished.select("n_gen", "latency_s").iter_rows()]


def _chart(curve: Curve, points: Rows, width: int) -> Chart:
    x, y = length_axis(), value_axis("rate", "tokens per second", log=False)
    layers = [
        *span_layers(x),
        *trend_layers(x, y, "rate_e", None, None),
        line_layer(x, y, "rate"),
        interval_layer(x, y, "rate_lo", "rate_hi"),
        point_layer(x, y, "rate", TIPS, TEXTS),
    ]
    values = [row[name] for row in points for name in ("rate", "rate_hi", "rate_e") if row[name] is not None]
    parameters = {**length_range([row["n"] for row in points], width), **linear_range(values)}
    data = {"curve": f"tokens-{curve.key}", "spans": f"{curve.key}-spans"}
    numbers = "; ".join(f"{n}, {digits(tokens / latency)}" for n, tokens, latency in _rates(curve)[:24])
    description = f"{rate_finding(curve)}. Tokens per second by output length: {numbers}."
    return make_chart(f"tokens-{curve.key}", layers, data, parameters, width, description, height=220)


def _table(curves: list[Curve]) -> Table:
    rows = [(curve.name, n, digits(tokens / latency)) for curve in curves for n, tokens, latency in _rates(curve)]
    columns = ("Curve", "Output length", "Tokens per second")
    return Table(columns, rows, frozenset(columns[1:]))
