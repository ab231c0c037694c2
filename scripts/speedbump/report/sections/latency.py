"""Latency by output length: the cliff and the return."""

from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve
from speedbump.report.layers import (
    LATENCY_TEXTS,
    LENGTH_TIP,
    interval_layer,
    line_layer,
    noticed_layer,
    point_layer,
    repeat_layer,
    span_layers,
    tip,
    trend_layers,
)
from speedbump.report.published import Published, draw_published
from speedbump.report.section import Figure, Section, Table, relevant
from speedbump.report.study import Study
from speedbump.report.theme import HALF, WIDE, length_axis, length_range, log_range, value_axis
from speedbump.report.verdict import curve_sentence, latency_finding
from speedbump.report.words import digits, plural, seconds, times

FULL = 6
"""Curves drawn in full, with every repeat; the others follow smaller."""
MOST_REPEATS = 600
"""More dots than these in one chart hide each other."""
COMPACT_WIDTH, COMPACT_HEIGHT = 310, 150

KEY = (
    ("dot normal", "centre of the repeats, with its 95 % interval"),
    ("dot slow", "the same in a slow regime"),
    ("dot off", "unclear: too little evidence for either"),
    ("triangle", "stopped: at least this slow"),
    ("small normal", "one repeat"),
    ("dash", "what the normal trend expects"),
    ("dots", "from here on a slow length would have been noticed"),
    ("band slow", "slow regime or step; lighter where its edge lies"),
)
TIPS = [
    LENGTH_TIP,
    tip("latency_text", "latency"),
    tip("interval_text", "95 % interval"),
    tip("expected_text", "trend expects"),
    tip("factor_text", "against the trend"),
    tip("noticed_text", "noticed from"),
    tip("requests", "requests"),
]


def drawn(study: Study) -> list[Curve]:
    """The curves that have a latency to draw."""
    return [curve for curve in study.curves if not curve.budgets.is_empty()]


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """One chart a curve, and the published curves beside a first look."""
    curves = drawn(study)
    charts = []
    for number, curve in enumerate(curves):
        if number < FULL:
            width = WIDE if len(curves) == 1 and not study.compare_with_paper else HALF
            charts.append(_full(curve, datasets, width))
        else:
            charts.append(_compact(curve, datasets))
    extra: dict[str, Rows] = {}
    if study.compare_with_paper:
        chart, extra = draw_published(published)
        charts.append(chart)
    return Drawing(charts, extra)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    curves = drawn(study)
    finding = latency_finding(study.curves)
    if not curves:
        return Section("latency", "Latency", finding, empty="Filled by the first run that finishes.")
    figures = [_figure(curve, curve.spoken, curve_sentence(curve)) for curve in curves[:FULL]]
    if study.compare_with_paper:
        figures.append(Figure(("latency-published",), published.heading, published.note))
    return Section(
        anchor="latency",
        nav="Latency",
        finding=finding,
        lead="Whole request, from its start to the last token, on a logarithmic scale. Lower is better.",
        key=relevant(KEY, curves),
        figures=figures,
        small=[_figure(curve, curve.name) for curve in curves[FULL:]],
        caption="The trend is fitted to normal lengths alone and never falls; a factor is latency over that trend.",
        table=_table(curves[:FULL], len(curves)),
        file="budgets",
    )


def _figure(curve: Curve, heading: str, note: str = "") -> Figure:
    return Figure((f"latency-{curve.key}",), heading, note, (curve.key,))


def _full(curve: Curve, datasets: dict[str, Rows], width: int) -> Chart:
    x, y = length_axis(), value_axis("y", "seconds (log scale)")
    repeats = datasets[f"{curve.key}-repeats"]
    layers = [
        *span_layers(x),
        *trend_layers(x, y),
        noticed_layer(x, y),
        line_layer(x, y, "y"),
        interval_layer(x, y, "lo", "hi"),
        *([repeat_layer(x, y)] if len(repeats) <= MOST_REPEATS else []),
        point_layer(x, y, "y", TIPS, LATENCY_TEXTS),
    ]
    data = {"curve": curve.key, "spans": f"{curve.key}-spans"}
    if len(repeats) <= MOST_REPEATS:
        data["repeats"] = f"{curve.key}-repeats"
    return make_chart(
        f"latency-{curve.key}", layers, data, _ranges(curve, datasets, width), width, describe_curve(curve)
    )


def _compact(curve: Curve, datasets: dict[str, Rows]) -> Chart:
    x, y = length_axis(), value_axis("y", "seconds (log)")
    layers = [
        *span_layers(x, label=False),
        *trend_layers(x, y, low=None, high=None),
        line_layer(x, y, "y"),
        point_layer(x, y, "y", TIPS, LATENCY_TEXTS, size=18),
    ]
    data = {"curve": curve.key, "spans": f"{curve.key}-spans"}
    parameters = _ranges(curve, datasets, COMPACT_WIDTH)
    return make_chart(
        f"latency-{curve.key}", layers, data, parameters, COMPACT_WIDTH, describe_curve(curve), COMPACT_HEIGHT
    )


def _ranges(curve: Curve, datasets: dict[str, Rows], width: int) -> dict[str, object]:
    points = datasets[curve.key]
    values = [
        row[name] for row in points for name in ("y", "lo", "hi", "e", "t") if row[name] is not None and row[name] > 0
    ]
    values += [row["y"] for row in datasets.get(f"{curve.key}-repeats", []) if row["y"]]
    return {**length_range([row["n"] for row in points], width), **log_range(values)}


def describe_curve(curve: Curve) -> str:
    """The text alternative: the verdict and, for a curve of few lengths, every number."""
    text = curve_sentence(curve)
    if curve.budgets.height > 24:
        return f"{text} The values of {curve.budgets.height} lengths are in the table."
    values = [
        f"{row['n_gen']}, {'at least ' if row['lower_bound'] else ''}{seconds(row['latency_s'])}"
        for row in curve.budgets.iter_rows(named=True)
    ]
    return f"{text} Latency by output length: {'; '.join(values)}."


def _table(curves: list[Curve], total: int) -> Table:
    rows = []
    for curve in curves:
        for row in curve.budgets.iter_rows(named=True):
            bound = "at least " if row["lower_bound"] else ""
            rows.append(
                (
                    curve.name,
                    row["n_gen"],
                    f"{bound}{digits(row['latency_s'])}",
                    f"{digits(row['low_s'])}–{digits(row['high_s'])}" if row["low_s"] is not None else "none",
                    digits(row["expected_s"]) if row["expected_s"] else "no trend",
                    f"{bound}{times(row['slowdown'])}" if row["slowdown"] else "no trend",
                    row["n_requests"],
                    "unstable: repeats in both states" if row["unstable"] else row["state"],
                )
            )
    shown = (
        ""
        if total == len(curves)
        else f"The {plural(len(curves), 'curve')} drawn large; all {total} are in the data file."
    )
    columns = (
        "Curve",
        "Output length",
        "Latency, s",
        "95 % interval, s",
        "Trend, s",
        "Against trend",
        "Requests",
        "State",
    )
    return Table(columns, rows, frozenset(columns[1:7]), shown)
