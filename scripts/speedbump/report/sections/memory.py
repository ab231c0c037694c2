"""Memory: which counter follows latency, and which does not."""

from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, of_all
from speedbump.report.layers import LATENCY_TEXTS, LENGTH_TIP, chart_of, line_layer, point_layer, span_layers, tip, y_of
from speedbump.report.points import MEMORY, short, summarise_cells
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table, relevant
from speedbump.report.study import Study
from speedbump.report.theme import (
    HALF,
    WIDE,
    length_axis,
    length_range,
    linear_range,
    log_range,
    state_colour,
    value_axis,
)
from speedbump.report.words import capitalised, gigabytes, listing, plural, seconds

MOST = 2
TITLES = {
    "torch_current": "live tensors",
    "torch_driver": "driver memory",
    "rss": "resident memory",
    "footprint": "physical footprint",
    "system_used": "memory in use on the machine",
    "swap_used": "swap in use",
}
KEY = (("dot normal", "latency, or a counter's peak"), ("dot slow", "the same in a slow regime"))
FOLLOWS = 0.05
"""A counter follows when it falls by this share while latency returns."""


def counters(points: Rows) -> list[str]:
    """The counters that were read: of resident memory and footprint, the footprint where there is one."""
    read = [name for name in MEMORY if any(row[name] is not None for row in points)]
    return [name for name in read if name != "rss" or "footprint" not in read]


def memory_points(study: Study, curve: Curve, points: Rows) -> Rows:
    """The curve's points with every counter's peak in bytes."""
    cells = summarise_cells(study.cells.filter(study.cells["series"] == curve.series))
    peaks = {row["n_gen"]: row for row in cells.to_dicts()}
    kept = ("n", "y", "f", "state", "bound", "piece")
    return [
        {
            **{name: row[name] for name in kept},
            **{name: short(peaks.get(row["n"], {}).get(f"{name}_peak_bytes"), 5) for name in MEMORY},
        }
        for row in points
    ]


def drawn(study: Study, datasets: dict[str, Rows]) -> list[tuple[Curve, Rows]]:
    """The most affected curves with a counter at two lengths or more, and their points."""
    found: list[tuple[Curve, Rows]] = []
    for curve in study.curves:
        if len(datasets.get(curve.key, [])) > 1 and len(found) < MOST:
            points = memory_points(study, curve, datasets[curve.key])
            found += [(curve, points)] if counters(points) else []
    return found


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Panels with one x axis: latency, then a panel a counter."""
    shown = drawn(study, datasets)
    charts = [chart for curve, points in shown for chart in _panels(curve, points, WIDE if len(shown) == 1 else HALF)]
    return Drawing(charts, {f"memory-{curve.key}": points for curve, points in shown})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    shown = drawn(study, datasets)
    if not shown:
        return Section(
            "memory", "Memory", "Memory", empty="Filled by runs of two output lengths whose memory was read."
        )
    total = sum(not curve.budgets.is_empty() for curve in study.curves)
    more = of_all([curve for curve, _ in shown], total)
    return Section(
        anchor="memory",
        nav="Memory",
        finding=memory_finding(*shown[0]),
        lead=f"Largest value read at a request's end, in gigabytes, under latency on the same lengths.{more}",
        key=relevant(KEY, [curve for curve, _ in shown]),
        figures=[
            Figure(
                tuple(f"memory-{curve.key}-{name}" for name in ("y", *counters(points))),
                curve.spoken,
                "",
                (curve.key,),
            )
            for curve, points in shown
        ],
        caption="Counters are read between requests, so what rises and falls within a request is not seen.",
        table=_table(shown),
        file="cells",
    )


def memory_finding(curve: Curve, points: Rows) -> str:
    """The title: which counters fall where latency returns, or how far the largest grows."""
    by_length = {row["n"]: row for row in points}
    names = counters(points)
    for regime in sorted(curve.accepted, key=lambda regime: -regime.slowdown):
        before, after = by_length.get(regime.last_slow), by_length.get(regime.recovery_high or -1)
        if before is None or after is None:
            continue
        falling, known = [], []
        for name in names:
            if before[name] is not None and after[name] is not None:
                known.append(name)
                if after[name] < before[name] * (1 - FOLLOWS):
                    falling.append(TITLES[name])
        if known:
            bound = "at least " if before["bound"] else ""
            text = f"Latency falls from {bound}{seconds(before['y'])} at {before['n']} tokens to {seconds(after['y'])}"
            text = f"{text} at {after['n']}"
            if not falling:
                return f"{text}; no memory counter falls with it"
            verb = "falls" if len(falling) == 1 else "fall"
            return f"{text}; of {plural(len(known), 'memory counter')}, {listing(falling)} {verb} with it"
    grown = max(names, key=lambda name: _growth([row[name] for row in points]))
    values = [row[grown] for row in points if row[grown] is not None]
    span = f"from {points[0]['n']} to {points[-1]['n']} tokens"
    if len(values) < 2 or values[-1] <= values[0]:
        return f"{capitalised(span)}, no memory counter grows ({curve.spoken})"
    change = f"from {gigabytes(values[0])} to {gigabytes(values[-1])}"
    return f"{capitalised(span)}, {TITLES[grown]} grows most, {change} ({curve.spoken})"


def _growth(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return known[-1] - known[0]


def _panels(curve: Curve, points: Rows, width: int) -> list[Chart]:
    names = counters(points)
    lengths = length_range([row["n"] for row in points], width)
    return [
        _panel(curve, "y", "latency, seconds (log)", points, lengths, width, labels=False),
        *(
            _panel(curve, name, f"{TITLES[name]}, GB", points, lengths, width, labels=name == names[-1])
            for name in names
        ),
    ]


def _panel(
    curve: Curve, field: str, title: str, points: Rows, lengths: dict[str, object], width: int, labels: bool
) -> Chart:
    x = length_axis(labels=labels)
    data = {"curve": f"memory-{curve.key}", "spans": f"{curve.key}-spans"}
    known = [row[field] for row in points if row[field] is not None]
    if field == "y":
        y = value_axis("y", title)
        tips = [LENGTH_TIP, tip("latency_text", "latency"), tip("factor_text", "against the trend")]
        texts = {name: LATENCY_TEXTS[name] for name in ("latency_text", "factor_text")}
        layers = [*span_layers(x), line_layer(x, y, "y"), point_layer(x, y, "y", tips, texts)]
        ranges, values = log_range(known), [seconds(value) for value in known]
    else:
        y = value_axis("gigabytes", title, log=False)
        read = (
            chart_of("curve")
            .transform_filter(f"datum.{field} != null")
            .transform_calculate(gigabytes=f"datum.{field} / 1e9")
        )
        text = read.transform_calculate(text="format(datum.gigabytes, '.3~r') + ' GB'")
        layers = [
            *span_layers(x, label=False),
            read.mark_line(strokeWidth=1.25, strokeOpacity=0.6).encode(
                x=x, y=y_of("gigabytes", y), color=state_colour(), detail="piece:N"
            ),
            text.mark_point(filled=True, size=36, opacity=1).encode(
                x=x, y=y_of("gigabytes", y), color=state_colour(), tooltip=[LENGTH_TIP, tip("text", title)]
            ),
        ]
        ranges, values = linear_range([value / 1e9 for value in known]), [gigabytes(value) for value in known]
    description = f"{curve.spoken}, {title}: from {values[0]} at the smallest to {values[-1]} at the largest length."
    return make_chart(f"memory-{curve.key}-{field}", layers, data, {**lengths, **ranges}, width, description, 84)


def _table(shown: list[tuple[Curve, Rows]]) -> Table:
    names = [name for name in MEMORY if any(row[name] is not None for _, points in shown for row in points)]
    rows = [
        (curve.name, row["n"], seconds(row["y"]), *(gigabytes(row[name]) for name in names))
        for curve, points in shown
        for row in points
    ]
    columns = ("Curve", "Output length", "Latency", *(capitalised(TITLES[name]) for name in names))
    return Table(columns, rows, frozenset(columns[1:]))
