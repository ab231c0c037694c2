"""What to do about it on this machine: what each change leaves of the slow-down, and what it costs elsewhere."""

from typing import Any

import altair as alt

from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import axis_words
from speedbump.report.layers import chart_of, tip
from speedbump.report.points import short
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table
from speedbump.report.sections.mechanism import curve_name, in_order
from speedbump.report.study import Study
from speedbump.report.theme import HALF, colour, log_range
from speedbump.report.words import interval, plural, times

CHANGES = ("kv_cache", "attention", "dtype", "between_requests", "harness", "compile", "watermark", "order")
"""Axes that a user can change for good; the others are there to find out why."""
CLEARLY = 0.7
"""A change helps when it leaves at most this share of the slow-down, as a factor, its whole interval considered."""
EMPTY = Section(
    "mitigations",
    "What helps",
    "What to do about it on this machine",
    empty="Filled by a study with arms that differ from a plain curve in one thing, such as config/mechanism.yaml.",
)
Row = dict[str, Any]


def changes(study: Study) -> dict[str, list[Row]]:
    """By reference curve, in their order, the arms that a user can choose, in theirs."""
    found: dict[str, list[Row]] = {series: [] for series in in_order(study, study.mitigations["reference"])}
    for row in study.mitigations.sort("rank").to_dicts():
        if row["axis"] in CHANGES or (row["axis"], row["value"]) == ("instrument", "free_running"):
            found[row["reference"]].append(row)
    return {series: rows for series, rows in found.items() if rows}


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """A chart a reference: slow-down left and price of every arm."""
    charts, extra = [], {}
    for number, (series, rows) in enumerate(changes(study).items(), 1):
        name = f"mitigations-{number}"
        extra[name] = _points(rows)
        charts.append(_chart(name, curve_name(study, series), rows, extra[name]))
    return Drawing(charts, extra)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, a chart for each reference, and the table."""
    every = changes(study)
    if not every:
        return EMPTY
    slow = any(row["slowdown"] is not None for rows in every.values() for row in rows)
    key = (("dot slow", "slow-down that stays inside the regime"),) if slow else ()
    return Section(
        anchor="mitigations",
        nav="What helps",
        finding=mitigation_finding(study, *next(iter(every.items()))),
        lead="Each change alone, against the same curve without it. The price is its latency over the plain one’s at "
        "lengths that are normal in both: above 1 it costs, below 1 it saves.",
        key=(*key, ("dot normal", "price at normal lengths")),
        figures=[
            Figure((f"mitigations-{number}",), curve_name(study, series)) for number, series in enumerate(every, 1)
        ],
        caption="Bars are 95 % intervals. A change may also move slowness to lengths that were not measured here. Arms "
        "that only help to find the cause are in the data file.",
        table=_table(study, every),
        open=True,
        file="mitigations",
    )


def mitigation_finding(study: Study, series: str, rows: list[Row]) -> str:
    """The title: the change that leaves least, and its price."""
    name = curve_name(study, series)
    slow = [row for row in rows if row["slowdown"] is not None]
    if not slow:
        return f"{name}: no regime, nothing to avoid; what {plural(len(rows), 'change')} would cost"
    best = slow[0]
    if best["slowdown_high"] > CLEARLY * best["reference_slowdown"]:
        return f"None of {plural(len(slow), 'change')} tried makes the slow regime of {name} clearly faster"
    price = f", and takes {times(best['price'])} as long elsewhere" if best["price"] is not None else ""
    left = f"brings a slow-down of {times(best['reference_slowdown'])} down to {times(best['slowdown'])}"
    return f"What to do about it on this machine: {change_words(best)} {left}{price}"


def change_words(row: Row) -> str:
    """``static cache``, ``one process, descending``."""
    if row["axis"] == "order":
        return f"one process, {row['value']}"
    words = axis_words(row["axis"], row["value"])
    if row["axis"] == "between_requests":
        return f"{words} between requests"
    return f"{row['axis']} {row['value']}" if words == row["value"] else words


def _points(rows: list[Row]) -> Rows:
    points: Rows = []
    for row in rows:
        for kind, column in (("slow", "slowdown"), ("normal", "price")):
            if row[column] is not None:
                points.append(
                    {
                        "arm": change_words(row),
                        "kind": kind,
                        "v": short(row[column]),
                        "lo": short(row[f"{column}_low"]),
                        "hi": short(row[f"{column}_high"]),
                        "text": _value(row, column),
                    }
                )
    return points


def _chart(name: str, curve: str, rows: list[Row], points: Rows) -> Chart:
    ends = [value for point in points for value in (point["v"], point["lo"], point["hi"]) if value]
    parameters = {key.replace("y_", "x_"): value for key, value in log_range([1.0, *ends]).items()}
    domain = [alt.ExprRef("x_min"), alt.ExprRef("x_max")]
    axis = alt.Axis(title="factor (log scale)", values=alt.ExprRef("x_ticks"), format="~g")
    x = alt.X("v:Q").scale(type="log", domain=domain, nice=False).axis(axis)
    y = alt.Y("arm:N", sort=None).axis(title=None, labelLimit=190, grid=False)
    kinds = alt.Color("kind:N").scale(domain=["slow", "normal"], range=[colour("slow"), colour("normal")])
    shift = alt.YOffset("kind:N").scale(domain=["slow", "normal"])
    base = chart_of("points")
    one = (
        base.transform_aggregate(groupby=["one"])
        .transform_calculate(one="1")
        .mark_rule(stroke=colour("ink3"), strokeDash=[3, 3])
        .encode(x=alt.X("one:Q").scale(type="log", domain=domain, nice=False))
    )
    bars = base.mark_rule(strokeWidth=6, opacity=0.3).encode(
        x=alt.X("lo:Q").scale(type="log", domain=domain, nice=False), x2="hi:Q", y=y, yOffset=shift, color=kinds
    )
    dots = base.mark_point(filled=True, size=56, opacity=1, stroke=colour("bg"), strokeWidth=1).encode(
        x=x,
        y=y,
        yOffset=shift,
        color=kinds,
        tooltip=[tip("arm", "change"), tip("kind", "lengths"), tip("text", "factor")],
    )
    numbers = "; ".join(
        f"{change_words(row)}: slow-down left {_value(row, 'slowdown') or 'none'}, price {_value(row, 'price')}"
        for row in rows
    )
    return make_chart(
        name,
        [one, bars, dots],
        {"points": name},
        parameters,
        HALF,
        f"{curve}. What stays of the slow-down, and the price elsewhere: {numbers}.",
        height=max(90, 34 * len(rows)),
    )


def _value(row: Row, column: str) -> str:
    if row[column] is None:
        return ""
    ends = interval(row[f"{column}_low"], row[f"{column}_high"])
    text = f"{times(row[column])} ({ends})" if ends else times(row[column])
    return f"at least {text}" if column != "price" and row["lower_bound"] else text


def _table(study: Study, every: dict[str, list[Row]]) -> Table:
    slow = any(row["reference_slowdown"] is not None for own in every.values() for row in own)
    rows = [
        (
            change_words(row),
            *([curve_name(study, series)] if len(every) > 1 else []),
            *(_inside(row) if slow else ()),
            _value(row, "price") or "not told",
        )
        for series, own in every.items()
        for row in own
    ]
    where = ["Curve"] if len(every) > 1 else []
    inside = ("Slow-down left (95 %)", "Without it", "Time at slow lengths") if slow else ()
    columns = ("Change", *where, *inside, "Price at normal lengths (95 %)")
    return Table(columns, rows, frozenset((*inside, columns[-1])))


def _inside(row: Row) -> tuple[str, str, str]:
    without = "" if row["reference_slowdown"] is None else times(row["reference_slowdown"])
    return _value(row, "slowdown") or "no regime", without, _value(row, "inside")
