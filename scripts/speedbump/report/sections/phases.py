"""Prefill and decode: in which of the two the excess is."""

import polars as pl

from speedbump.grid.axes import DEFAULTS
from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, of_all
from speedbump.report.layers import LATENCY_TEXTS, LENGTH_TIP, line_layer, point_layer, span_layers, tip, tooltip_text
from speedbump.report.points import short, summarise_cells
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table, relevant
from speedbump.report.study import Study
from speedbump.report.theme import HALF, length_axis, length_range, log_range, value_axis
from speedbump.report.words import digits, seconds

MOST = 2
PHASES = (("ttft", "prefill", "prefill, seconds (log scale)"), ("decode", "decode", "decode, seconds (log scale)"))

KEY = (("dot normal", "prefill or decode, median of the repeats"), ("dot slow", "the same in a slow regime"))

Times = dict[int, tuple[float, float]]
"""Seconds of prefill and of decode by output length."""


def times_of(study: Study, curve: Curve) -> Times:
    """Medians of both phases where a request finished."""
    cells = summarise_cells(study.cells.filter(study.cells["series"] == curve.series)).drop_nulls(
        ["ttft_median_s", "decode_median_s"]
    )
    return {
        n: (ttft, decode) for n, ttft, decode in cells.select("n_gen", "ttft_median_s", "decode_median_s").iter_rows()
    }


def drawn(study: Study) -> list[Curve]:
    """The first curves in the report's order for which both phases are known."""
    return [curve for curve in study.curves if not curve.budgets.is_empty() and times_of(study, curve)][:MOST]


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Two charts a curve with one scale."""
    curves = drawn(study)
    points = {f"phases-{curve.key}": _points(times_of(study, curve), datasets[curve.key]) for curve in curves}
    return Drawing([chart for curve in curves for chart in _charts(curve, points[f"phases-{curve.key}"])], points)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    curves = drawn(study)
    if not curves:
        empty = "Filled by the first request that reaches its first token and its last."
        return Section("phases", "Phases", "Prefill and decode", empty=empty)
    total = sum(not curve.budgets.is_empty() for curve in study.curves)
    shown = of_all(curves, total)
    return Section(
        anchor="phases",
        nav="Phases",
        finding=phase_finding(curves[0], times_of(study, curves[0])),
        lead=f"Time to the first token, and the time from there to the last, on one logarithmic scale.{shown}"
        f"{host_bound(study)}",
        key=relevant(KEY, curves),
        figures=[
            Figure((f"phases-{curve.key}-{field}",), f"{curve.spoken}: {name}", "", (curve.key,))
            for curve in curves
            for field, name, _ in PHASES
        ],
        caption="Decode is the whole request less the time to its first token.",
        table=_table(study, curves),
        file="cells",
    )


UNOBSERVED = ("free_running", "step_sync")
"""Instruments that add next to nothing to a step."""
_FREE = {"model", "weights", "device", "instrument", "compile", "kv_cache", "n_prompt", "n_gen", "process"}


def host_bound(study: Study) -> str:
    """What bounds curves on CUDA at batch 1, so that nobody takes them for the GPU's; empty without such a curve."""
    usual = {name: value for name, value in DEFAULTS.items() if name not in _FREE}
    plain = study.cells.filter(
        pl.col("instrument").is_in(UNOBSERVED), pl.col("kv_cache") != "off", device="cuda", **usual
    ).drop_nulls("tpot_median_s")
    undisturbed = plain.filter(pl.col("disturbed").is_null())
    plain = plain if undisturbed.is_empty() else undisturbed
    steps_ms: dict[tuple[str, str, str, str], list[float]] = {}
    for row in plain.sort("model", "machine", "stack").to_dicts():
        key = (row["model"], row["machine"], row["stack"], row["compile"])
        steps_ms.setdefault(key, []).append(row["tpot_median_s"] * 1e3)
    bound = [key[:3] for key in steps_ms if key[3] == "none"]
    if not bound:
        return ""
    graphs = [place for place in bound if (*place, "cuda_graph") in steps_ms]
    place = (graphs or bound)[0]
    freed = f"; as one CUDA graph it takes {_span_ms(steps_ms[*place, 'cuda_graph'])}" if graphs else ""
    return (
        " On CUDA at batch 1 the host’s Python starts every kernel of a step, and a fast GPU waits: such times are "
        f"the host’s. A step of {study.model_title(place[0])} takes {_span_ms(steps_ms[*place, 'none'])}{freed}."
    )


def _span_ms(values: list[float]) -> str:
    low, high = digits(min(values), 2), digits(max(values), 2)
    return f"{low} ms" if low == high else f"{low} to {high} ms"


def phase_finding(curve: Curve, known: Times) -> str:
    """The title: the share of the excess that is decode, or prefill's share of a request."""
    regime = curve.worst
    if regime is not None and regime.worst_n_gen in known:
        prefill, decode = known[regime.worst_n_gen]
        normal = [n for n in known if n < regime.first_slow] or [n for n in known if n > regime.last_slow]
        text = f"prefill takes {seconds(prefill)} of {seconds(prefill + decode)}"
        if normal:
            neighbour = min(normal, key=lambda n: abs(n - regime.worst_n_gen))
            base_prefill, base_decode = known[neighbour]
            excess = (prefill - base_prefill) + (decode - base_decode)
            share = (decode - base_decode) / excess if excess > 0 else None
            if share is not None and 0 <= share <= 1:
                lead = f"{regime.worst_n_gen} tokens take {seconds(excess)} more than {neighbour}"
                return f"{lead}, and {_percent(share)} of it is decode: {text}"
        return f"At {regime.worst_n_gen} tokens {text}"
    shares = [prefill / (prefill + decode) for prefill, decode in known.values()]
    low, high = _percent(min(shares)), _percent(max(shares))
    return f"Prefill is {low if low == high else f'{low} to {high}'} of a request"


def _percent(share: float) -> str:
    return f"{share:.0%}" if 0.1 <= share < 0.995 else f"{share * 100:.3g} %".replace(" %", "%")


def _points(known: Times, points: Rows) -> Rows:
    kept = ("n", "y", "state", "bound", "piece")
    rows: Rows = []
    for row in points:
        prefill, decode = known.get(row["n"], (None, None))
        rows.append({**{name: row[name] for name in kept}, "ttft": short(prefill), "decode": short(decode)})
    return rows


def _charts(curve: Curve, points: Rows) -> list[Chart]:
    values = [row[field] for row in points for field, _, _ in PHASES if row[field]]
    parameters = {**length_range([row["n"] for row in points], HALF), **log_range(values)}
    data = {"curve": f"phases-{curve.key}", "spans": f"{curve.key}-spans"}
    charts = []
    for field, name, title in PHASES:
        x, y = length_axis(), value_axis(field, title)
        tips = [LENGTH_TIP, tip("phase_text", name), tip("latency_text", "whole request")]
        texts = {**LATENCY_TEXTS, "phase_text": tooltip_text(field, " s")}
        layers = [*span_layers(x), line_layer(x, y, field), point_layer(x, y, field, tips, texts)]
        numbers = "; ".join(f"{row['n']}, {seconds(row[field])}" for row in points[:24])
        description = f"{curve.spoken}. {name.capitalize()} by output length: {numbers}."
        charts.append(make_chart(f"phases-{curve.key}-{field}", layers, data, parameters, HALF, description, 220))
    return charts


def _table(study: Study, curves: list[Curve]) -> Table:
    rows = [
        (curve.name, n, digits(prefill), digits(decode), _percent(prefill / (prefill + decode)))
        for curve in curves
        for n, (prefill, decode) in times_of(study, curve).items()
    ]
    columns = ("Curve", "Output length", "Prefill, s", "Decode, s", "Prefill share")
    return Table(columns, rows, frozenset(columns[1:]))
