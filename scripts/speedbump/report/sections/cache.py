"""KV cache on and off: where the benefit collapses."""

import altair as alt

from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, groups_differing_in
from speedbump.report.layers import LENGTH_TIP, chart_of, span_layers, tip, y_of
from speedbump.report.points import short
from speedbump.report.published import Published
from speedbump.report.ratios import Ratio, ratios
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import HALF, colour, length_axis, length_range, log_range, state_colour, value_axis
from speedbump.report.words import digits, lengths, listing, plural, seconds, times

MOST = 3
EMPTY = Section(
    "cache", "KV cache", "KV cache on and off", empty="Filled by an experiment with kv_cache: [dynamic, off]."
)
ARMS = ("cache on", "cache off")

Pair = tuple[Curve, Curve]
"""The curve with the cache on, and the one with it off."""


def pairs(study: Study) -> list[Pair]:
    """Curves alike but for the cache, the most affected first."""
    found = []
    for group in groups_differing_in(study.curves, "kv_cache"):
        off = [curve for curve in group if curve.row["kv_cache"] == "off"]
        on = sorted((c for c in group if c.row["kv_cache"] != "off"), key=lambda c: c.row["kv_cache"] != "dynamic")
        if off and on and ratios(study, off[0], on[0]):
            found.append((on[0], off[0]))
    return found


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """For each pair both curves, and the ratio from 1."""
    charts, extra = [], {}
    for on, off in pairs(study)[:MOST]:
        found = ratios(study, off, on)
        extra[f"cache-{on.key}"] = _arms(on, off, datasets)
        extra[f"cache-{on.key}-ratio"] = [_ratio_row(ratio) for ratio in found]
        charts += [_latency(on, off, extra[f"cache-{on.key}"]), _benefit(on, found)]
    return Drawing(charts, extra)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    every = pairs(study)
    if not every:
        return EMPTY
    shown = every[:MOST]
    more = "" if len(every) <= MOST else f" {MOST} of {plural(len(every), 'pair')} are shown."
    figures = []
    for on, off in shown:
        figures.append(Figure((f"cache-{on.key}-latency",), f"{on.spoken}: latency", "", (on.key, off.key)))
        figures.append(Figure((f"cache-{on.key}-benefit",), f"{on.spoken}: cache off over on", "", (on.key, off.key)))
    return Section(
        anchor="cache",
        nav="KV cache",
        finding=cache_finding(shown[0][0], ratios(study, shown[0][1], shown[0][0])),
        lead=f"The same model and lengths with the cache on and off, and how many times longer it takes without.{more}",
        key=(
            ("dot normal", "cache on"),
            ("square off", "cache off"),
            ("dot slow", "the cache-on curve is in a slow regime"),
        ),
        figures=figures,
        caption="A ratio of 1 means that the cache brings nothing. Intervals combine those of both curves.",
        table=_table(study, shown),
        file="budgets",
    )


def cache_finding(on: Curve, found: list[Ratio]) -> str:
    """The title: what the cache brings outside the slow regime, and inside."""
    clear = [ratio for ratio in found if not ratio.bound and not ratio.disturbed]
    normal = [ratio for ratio in clear if ratio.base_state == "normal"]
    slow = [ratio for ratio in clear if ratio.base_state == "slow"]
    if not clear and any(ratio.disturbed for ratio in found):
        return f"What the cache brings {on.spoken} is not known: the machine was busy"
    if not clear:
        return f"What the cache brings {on.spoken} is known as a bound only"
    if slow and normal:
        place = lengths(slow[0].n, slow[-1].n)
        outside = f"{on.spoken} takes {_span(normal)} as long without the cache outside the slow regime"
        return f"{outside}, and {_span(slow)} at {place} tokens"
    same = [str(ratio.n) for ratio in clear if ratio.low is not None and not ratio.differs]
    text = f"{on.spoken} takes {_span(clear)} as long without the cache"
    return f"{text}; no difference is shown at {listing(same)} tokens" if same else text


def _span(found: list[Ratio]) -> str:
    low, high = min(r.ratio for r in found), max(r.ratio for r in found)
    return times(low) if times(low) == times(high) else f"{times(low)[:-1]}–{times(high)}"


def _arms(on: Curve, off: Curve, datasets: dict[str, Rows]) -> Rows:
    rows: Rows = []
    for curve, arm in ((on, ARMS[0]), (off, ARMS[1])):
        for row in datasets[curve.key]:
            kept = {name: row[name] for name in ("n", "y", "lo", "hi", "state")}
            look = row["state"] if arm == ARMS[0] else "unclear"
            text = f"{'at least ' if row['bound'] else ''}{seconds(row['y'])}"
            rows.append({**kept, "arm": arm, "look": look, "text": text, "piece": f"{arm} {row['piece']}"})
    return rows


def _ratio_row(ratio: Ratio) -> dict[str, object]:
    sign = {"at least": "≥ ", "at most": "≤ "}.get(ratio.bound, "")
    return {
        "n": ratio.n,
        "y": short(ratio.ratio),
        "one": 1,
        "state": ratio.base_state,
        "text": ratio.words,
        "label": f"{sign}{times(ratio.ratio)}",
    }


def _latency(on: Curve, off: Curve, rows: Rows) -> Chart:
    x, y = length_axis(), value_axis("y", "seconds (log scale)")
    arms = chart_of("arms")
    look = state_colour("look")
    lines = arms.mark_line(strokeWidth=1.5, strokeOpacity=0.75).encode(
        x=x,
        y=y,
        detail="piece:N",
        color=look,
        strokeDash=alt.StrokeDash("arm:N").scale(domain=list(ARMS), range=[[1, 0], [5, 3]]),
    )
    interval = (
        arms.transform_filter("datum.lo != null && datum.hi != null")
        .mark_rule(strokeWidth=6, opacity=0.3)
        .encode(x=x, y=y_of("lo", y), y2="hi:Q", color=look)
    )
    points = arms.mark_point(filled=True, size=48, opacity=1, stroke=colour("bg"), strokeWidth=1).encode(
        x=x,
        y=y,
        color=look,
        shape=alt.Shape("arm:N").scale(domain=list(ARMS), range=["circle", "square"]),
        tooltip=[LENGTH_TIP, tip("arm", "KV cache"), tip("text", "latency"), tip("state", "state")],
    )
    values = [row[name] for row in rows for name in ("y", "lo", "hi") if row[name]]
    parameters = {**length_range([row["n"] for row in rows], HALF), **log_range(values)}
    numbers = "; ".join(f"{row['n']}, {row['arm']}, {row['text']}" for row in rows[:40])
    return make_chart(
        f"cache-{on.key}-latency",
        [*span_layers(x), lines, interval, points],
        {"arms": f"cache-{on.key}", "spans": f"{on.key}-spans"},
        parameters,
        HALF,
        f"{on.spoken} with the KV cache on and off. Latency by output length: {numbers}.",
    )


def _benefit(on: Curve, found: list[Ratio]) -> Chart:
    x, y = length_axis(), value_axis("y", "cache off ÷ on (log scale)")
    benefit = chart_of("ratio")
    stems = benefit.mark_rule(strokeWidth=2).encode(x=x, y=y_of("one", y), y2="y:Q", color=state_colour())
    heads = benefit.mark_point(filled=True, size=70, opacity=1).encode(
        x=x, y=y, color=state_colour(), tooltip=[LENGTH_TIP, tip("text", "off ÷ on")]
    )
    layers = [*span_layers(x, label=False), stems, heads]
    if len(found) <= 8:
        layers.append(benefit.mark_text(dy=-13, fontWeight=600).encode(x=x, y=y, text="label:N"))
    parameters = {**length_range([r.n for r in found], HALF), **log_range([1.0, *(r.ratio for r in found)])}
    numbers = "; ".join(f"{ratio.n}, {ratio.words}" for ratio in found[:40])
    return make_chart(
        f"cache-{on.key}-benefit",
        layers,
        {"ratio": f"cache-{on.key}-ratio", "spans": f"{on.key}-spans"},
        parameters,
        HALF,
        f"{on.spoken}: latency with the cache off over on, by output length: {numbers}.",
    )


def _table(study: Study, shown: list[Pair]) -> Table:
    rows = [
        (on.name, ratio.n, digits(ratio.base_s), digits(ratio.latency_s), ratio.words, ratio.base_state)
        for on, off in shown
        for ratio in ratios(study, off, on)
    ]
    columns = ("Curve", "Output length", "On, s", "Off, s", "Off ÷ on (95 %)", "State, cache on")
    return Table(columns, rows, frozenset(columns[1:5]))
