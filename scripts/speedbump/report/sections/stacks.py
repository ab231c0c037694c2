"""Stacks: what an upgrade fixed or broke, and how slow regimes went over the versions."""

import altair as alt

from speedbump.grid.stack import stack_order
from speedbump.report.changes import Change, changes_between_stacks, upgrade_sentence
from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, groups_differing_in, stack_titles
from speedbump.report.layers import LENGTH_TIP, chart_of, tip, x_of, y_of
from speedbump.report.points import short
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import HALF, HEIGHT, colour, length_axis, length_range, state_colour, value_axis
from speedbump.report.words import interval, lengths, listing, plural, seconds, sentence, times
from speedbump.tables import BUDGET_WORDS

MOST = 6
LEAST_HISTORY = 3
"""Stacks that make a history."""
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.8, 1, 1.25, 2, 5, 10, 20, 50, 100)
KEY = (
    ("dot slow", "slower"),
    ("dot normal", "faster"),
    ("dot off", "no change shown"),
    ("hollow off", "unclear: a disturbance of one process could explain it"),
    ("dash", "normal lengths together"),
    ("band off", "slow before"),
    ("band slow", "slow after"),
)
ICONS = {
    "new": "slow",
    "slower": "slow",
    "moved": "above",
    "gone": "smooth",
    "faster": "smooth",
    "can't tell": "unsure",
    "unchanged": "none",
}
EMPTY = Section(
    "stacks",
    "Stacks",
    "Stacks",
    empty="Filled by running the study again under another version of the system, PyTorch or Transformers.",
)

History = list[Curve]
"""Curves alike but for the stack, the oldest first."""


def drawn(study: Study) -> list[Change]:
    """The changes that have a picture: the worst, and of those that changed nothing one."""
    every = [change for change in changes_between_stacks(study) if change.budgets]
    changed = [change for change in every if change.word != "unchanged"]
    return (changed or every[:1])[:MOST]


def histories(study: Study) -> list[History]:
    """Curves under three stacks and more, the most affected first, as long as one of them has a slow regime."""
    found = [
        sorted(group, key=lambda curve: stack_order(curve.row["stack"]))
        for group in groups_differing_in(study.curves, "stack")
        if len(group) >= LEAST_HISTORY and any(curve.accepted for curve in group)
    ]
    return found[:MOST]


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """The ratios of every change, and the regimes of every history."""
    charts: list[Chart] = []
    extra: dict[str, Rows] = {}
    for change in drawn(study):
        name = _name(change)
        extra[name] = [_ratio_row(row) for row in change.budgets]
        extra[f"{name}-spans"] = _span_rows(change)
        charts.append(_ratio_chart(change, extra[name]))
    titles = stack_titles({curve.row["stack"] for curve in study.curves})
    for history in histories(study):
        name = f"stacks-history-{history[0].key}"
        extra[name], extra[f"{name}-bands"] = _history_rows(history, datasets, titles)
        charts.append(_history_chart(name, history, extra[name], titles))
    return Drawing(charts, extra)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    every = changes_between_stacks(study)
    if not every:
        return EMPTY
    shown = drawn(study)
    titles = stack_titles({curve.row["stack"] for curve in study.curves})
    figures = [
        Figure(
            (_name(change),),
            f"{change.name}: {change.titles[1]} ÷ {change.titles[0]}",
            sentence(change.sentence),
            (change.old.key, change.new.key),
        )
        for change in shown
    ]
    figures += [
        Figure(
            (f"stacks-history-{history[0].key}",),
            f"{history[0].model} on {history[0].device} over {len(history)} stacks",
            sentence(_history_words(history, titles)),
            tuple(curve.key for curve in history),
        )
        for history in histories(study)
    ]
    left = sum(change.word != "unchanged" for change in every) - len(shown)
    return Section(
        anchor="stacks",
        nav="Stacks",
        finding=upgrade_sentence(every),
        lead="Latency under the newer stack over that under the older, at every length that both have. Below 1 is "
        "faster." + (f" {plural(left, 'further change')} in the table." if left > 0 else ""),
        key=KEY if shown else (),
        figures=figures,
        caption="A change is shown when it cannot be the noise of requests, processes and sessions (5 % for all "
        "lengths of two stacks together, Holm), nor a disturbance of single processes, and when the fixed workload did "
        "not change with it. Intervals are 95 % each, wider where a run was disturbed. Two stacks may differ in more "
        "than the version named.",
        table=_table(every),
        open=True,
        file="series_changes",
    )


def _name(change: Change) -> str:
    return f"stacks-{change.old.key}-{change.new.key}"


def _ratio_row(row: dict[str, object]) -> dict[str, object]:
    bound = {"at least": "at least ", "at most": "at most "}.get(str(row["bound"]), "")
    ends = interval(row["low"], row["high"])  # type: ignore[arg-type]
    return {
        "n": row["n_gen"],
        "y": short(row["ratio"]),
        "lo": short(row["low"]),
        "hi": short(row["high"]),
        "one": 1,
        "change": row["change"],
        "text": f"{bound}{times(float(str(row['ratio'])))}" + (f" ({ends})" if ends else ""),
        "states": f"{row['old_state']} before, {row['new_state']} after",
    }


def _span_rows(change: Change) -> Rows:
    return [
        {"a": row[f"{side}_first"], "z": row[f"{side}_last"], "side": side}
        for row in change.regimes
        for side in ("old", "new")
        if row[f"{side}_first"] is not None
    ]


def _ratio_chart(change: Change, rows: Rows) -> Chart:
    x, y = length_axis(), value_axis("y", "new ÷ old (log scale)")
    points, spans = chart_of("ratios"), chart_of("spans")
    shade = alt.Color("change:N").scale(
        domain=list(BUDGET_WORDS), range=[colour(name) for name in ("slow", "normal", "off", "off")]
    )
    strips = [
        spans.transform_filter(f"datum.side == '{side}'")
        .mark_rule(stroke=colour(fill), strokeWidth=6, strokeCap="square", opacity=0.55)
        .encode(x=x_of("a", x), x2="z:Q", y=alt.value(HEIGHT - place))
        for side, fill, place in (("old", "off", 14), ("new", "slow", 5))
    ]
    one = points.mark_line(stroke=colour("ink3"), strokeWidth=1).encode(x=x, y=y_of("one", y))
    intervals = (
        points.transform_filter("datum.lo != null && datum.hi != null")
        .mark_rule(strokeWidth=6, opacity=0.3)
        .encode(x=x, y=y_of("lo", y), y2="hi:Q", color=shade)
    )
    tips = [LENGTH_TIP, tip("text", "new ÷ old"), tip("change", "change"), tip("states", "state")]
    dots = [
        points.transform_filter("datum.change != 'unclear'")
        .mark_point(filled=True, size=52, opacity=1, stroke=colour("bg"), strokeWidth=1)
        .encode(x=x, y=y, color=shade, tooltip=tips),
        points.transform_filter("datum.change == 'unclear'")
        .mark_point(size=46, opacity=1, stroke=colour("off"), strokeWidth=1.75, fill=colour("bg"))
        .encode(x=x, y=y, tooltip=tips),
    ]
    layers = [*strips, one, intervals, *dots]
    ends = [float(str(row[name])) for row in rows for name in ("y", "lo", "hi") if row[name]]
    low, high = min(0.8, min(ends) / 1.1), max(1.25, max(ends) * 1.1)
    parameters: dict[str, object] = {
        **length_range([int(str(row["n"])) for row in rows], HALF),
        "y_min": low,
        "y_max": high,
        "y_ticks": [tick for tick in TICKS if low <= tick <= high],
    }
    if change.row["shift"]:
        parameters["shift"] = short(change.row["shift"])
        layers.insert(
            len(strips) + 1,
            points.transform_calculate(shift="shift")
            .mark_line(stroke=colour("ink3"), strokeDash=[4, 4], strokeWidth=1.25)
            .encode(x=x, y=y_of("shift", y)),
        )
    numbers = "; ".join(f"{row['n']}, {row['text']}, {row['change']}" for row in rows[:40])
    return make_chart(
        _name(change),
        layers,
        {"ratios": _name(change), "spans": f"{_name(change)}-spans"},
        parameters,
        HALF,
        f"{change.name}, {change.titles[1]} over {change.titles[0]}. {sentence(change.sentence)} Ratio by output "
        f"length: {numbers}.",
    )


def _history_rows(history: History, datasets: dict[str, Rows], titles: dict[str, str]) -> tuple[Rows, Rows]:
    points: Rows = []
    bands: Rows = []
    for curve in history:
        stack = titles[curve.row["stack"]]
        for row in datasets[curve.key]:
            text = f"{'at least ' if row['bound'] else ''}{seconds(row['y'])}"
            points.append({"n": row["n"], "stack": stack, "state": row["state"], "text": text, "label": ""})
        for regime in curve.accepted:
            first, last = regime.first_slow, regime.last_slow
            label = f"{'≥ ' if regime.lower_bound else ''}{times(regime.slowdown)}"
            bands.append({"a": first, "z": last, "stack": stack, "kind": "core", "label": label})
            if regime.onset_low is not None:
                bands.append({"a": regime.onset_low, "z": first, "stack": stack, "kind": "edge", "label": ""})
            if regime.recovery_high is not None:
                bands.append({"a": last, "z": regime.recovery_high, "stack": stack, "kind": "edge", "label": ""})
    return points, bands


def _history_chart(name: str, history: History, points: Rows, titles: dict[str, str]) -> Chart:
    x = length_axis()
    y = alt.Y("stack:N", sort=None).axis(title=None, labelLimit=200, minExtent=_extent(titles))
    bars = chart_of("bands")
    bands = [
        bars.transform_filter(f"datum.kind == '{kind}'")
        .mark_bar(fill=colour("slow"), fillOpacity=opacity, height=14)
        .encode(x=x_of("a", x), x2="z:Q", y=y)
        for kind, opacity in (("edge", 0.18), ("core", 0.4))
    ]
    dots = (
        chart_of("points")
        .mark_point(filled=True, size=32, opacity=1)
        .encode(
            x=x,
            y=y,
            color=state_colour(),
            tooltip=[tip("stack", "stack"), LENGTH_TIP, tip("text", "latency"), tip("state", "state")],
        )
    )
    labels = (
        bars.transform_filter("datum.label != ''")
        .transform_calculate(middle="(datum.a + datum.z) / 2")
        .mark_text(dy=-14, fill=colour("slowink"), fontWeight=600)
        .encode(x=x_of("middle", x), y=y, text="label:N")
    )
    return make_chart(
        name,
        [dots, *bands, labels],
        {"points": name, "bands": f"{name}-bands"},
        length_range([int(str(row["n"])) for row in points], HALF),
        HALF,
        f"{history[0].model} on {history[0].device}. {sentence(_history_words(history, titles))}",
        height=max(90, 46 * len(history)),
    )


def _extent(titles: dict[str, str]) -> int:
    """Pixels for the longest title, in letters of 12 pixels."""
    return min(200, 10 + 7 * max(map(len, titles.values())))


def _history_words(history: History, titles: dict[str, str]) -> str:
    """``torch 2.7.0: 10.7× at 512–624; torch 2.8.0: no slow regime``."""
    words = []
    for curve in history:
        found = listing(
            f"{'at least ' if r.lower_bound else ''}{times(r.slowdown)} at {lengths(r.first_slow, r.last_slow)}"
            for r in curve.accepted
        )
        none = "no slow regime" if curve.verdict == "smooth" else curve.verdict
        words.append(f"{titles[curve.row['stack']]}: {found or none}")
    return "; ".join(words)


def _table(every: list[Change]) -> Table:
    rows = [
        (
            change.name,
            change.titles[0],
            change.titles[1],
            change.word,
            sentence(change.sentence) + (f" Next: {change.row['next']}." if change.row["next"] else ""),
            change.row["n_budgets"],
            _shift(change),
        )
        for change in every
    ]
    columns = ("Curve", "Old", "New", "Change", "What", "Lengths", "Normal lengths, new ÷ old (95 %)")
    return Table(columns, rows, frozenset(columns[5:]), icons=ICONS)


def _shift(change: Change) -> str:
    if change.row["shift"] is None:
        return "none"
    return f"{times(change.row['shift'])} ({interval(change.row['shift_low'], change.row['shift_high'])})"
