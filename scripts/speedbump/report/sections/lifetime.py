"""Order, lifetime and pauses: what makes slowness go away."""

from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, axis_words, groups_differing_in
from speedbump.report.layers import LENGTH_TIP, chart_of, span_layers, tip, y_of
from speedbump.report.points import short
from speedbump.report.published import Published
from speedbump.report.ratios import Ratio, ratios
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import HALF, colour, length_axis, length_range, log_range, state_colour, value_axis
from speedbump.report.words import digits, listing, plural

MOST = 6
AXES = ("lifetime", "order", "between_requests")
EMPTY = Section(
    "lifetime",
    "Order",
    "Order, lifetime and pauses",
    empty="Filled by an experiment with lifetime: persistent, or with between_requests.",
)

Arm = tuple[Curve, Curve]
"""The default arm, a fresh process without pause, and the arm compared with it."""


def arms(study: Study) -> list[Arm]:
    """Every arm whose default arm is measured at a common length, the most affected default first."""
    found = []
    for group in groups_differing_in(study.curves, *AXES):
        base = next((c for c in group if c.fresh and c.row["between_requests"] == "nothing"), None)
        if base is not None:
            found += [(base, curve) for curve in group if curve is not base and ratios(study, curve, base)]
    return found


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """One chart an arm: its latency over the default arm's."""
    charts, extra = [], {}
    for base, arm in arms(study)[:MOST]:
        found = ratios(study, arm, base)
        extra[f"lifetime-{arm.key}"] = [_row(ratio) for ratio in found]
        charts.append(_chart(base, arm, found))
    return Drawing(charts, extra)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    every = arms(study)
    if not every:
        return EMPTY
    shown = every[:MOST]
    more = "" if len(every) <= MOST else f" {MOST} of {plural(len(every), 'arm')} are shown."
    return Section(
        anchor="lifetime",
        nav="Order",
        finding=lifetime_finding(study, every),
        lead=f"Latency over that of a fresh process without pauses, at the same length. Below 1 is faster.{more}",
        key=(("dot normal", "length normal in the default arm"), ("dot slow", "length slow in the default arm")),
        figures=[
            Figure((f"lifetime-{arm.key}",), f"{arm.model}, {arm.device}: {_arm_words(arm)}", "", (base.key, arm.key))
            for base, arm in shown
        ],
        caption="Bands mark the slow regimes of the default arm.",
        table=_table(study, shown),
        file="budgets",
    )


def lifetime_finding(study: Study, every: list[Arm]) -> str:
    """The title: in which arms the lengths are normal that are slow in the default arm."""
    one = len({base.key for base, _ in every}) == 1
    gone: list[str] = []
    kept: list[str] = []
    for base, arm in every:
        states = [ratio.state for ratio in ratios(study, arm, base) if ratio.base_state == "slow"]
        if states:
            words = _arm_words(arm) if one else f"{_arm_words(arm)} ({base.model}, {base.device})"
            (gone if all(state == "normal" for state in states) else kept).append(words)
    parts = [f"normal with {listing(gone)}"] if gone else []
    parts += [f"not all normal with {listing(kept)}"] if kept else []
    if not parts:
        return f"No length that is slow in a fresh process was measured in {plural(len(every), 'other arm')}"
    return f"Lengths that are slow in a fresh process are {listing(parts)}"


def _arm_words(arm: Curve) -> str:
    """``one process for all, shuffled``, ``cache emptied between requests``."""
    words = []
    if not arm.fresh:
        words.append(f"one process for all lengths, {arm.row['order']}")
    if arm.row["between_requests"] != "nothing":
        words.append(f"{axis_words('between_requests', arm.row['between_requests'])} between requests")
    return ", ".join(words) or "the default"


def _row(ratio: Ratio) -> dict[str, object]:
    return {
        "n": ratio.n,
        "y": short(ratio.ratio),
        "lo": short(ratio.low),
        "hi": short(ratio.high),
        "state": ratio.base_state,
        "text": ratio.words,
        "own": ratio.state,
    }


def _chart(base: Curve, arm: Curve, found: list[Ratio]) -> Chart:
    x, y = length_axis(), value_axis("y", "latency ÷ default arm (log scale)")
    points = chart_of("ratio")
    one = (
        points.transform_aggregate(groupby=["one"])
        .transform_calculate(one="1")
        .mark_rule(stroke=colour("ink3"), strokeDash=[3, 3])
    )
    interval = (
        points.transform_filter("datum.lo != null && datum.hi != null")
        .mark_rule(strokeWidth=6, opacity=0.3)
        .encode(x=x, y=y_of("lo", y), y2="hi:Q", color=state_colour())
    )
    dots = points.mark_point(filled=True, size=48, opacity=1, stroke=colour("bg"), strokeWidth=1).encode(
        x=x,
        y=y,
        color=state_colour(),
        tooltip=[
            LENGTH_TIP,
            tip("text", "over the default arm"),
            tip("state", "default arm"),
            tip("own", "this arm"),
        ],
    )
    ends = [value for ratio in found for value in (ratio.ratio, ratio.low, ratio.high) if value]
    numbers = "; ".join(f"{ratio.n}, {ratio.words}" for ratio in found[:40])
    return make_chart(
        f"lifetime-{arm.key}",
        [*span_layers(x), one.encode(y=y_of("one", y)), interval, dots],
        {"ratio": f"lifetime-{arm.key}", "spans": f"{base.key}-spans"},
        {**length_range([ratio.n for ratio in found], HALF), **log_range([1.0, *ends])},
        HALF,
        f"{arm.spoken}: latency over the default arm's, by output length: {numbers}.",
        height=220,
    )


def _table(study: Study, shown: list[Arm]) -> Table:
    rows = [
        (
            f"{arm.model}, {arm.device}",
            _arm_words(arm),
            ratio.n,
            digits(ratio.base_s),
            digits(ratio.latency_s),
            ratio.words,
        )
        for base, arm in shown
        for ratio in ratios(study, arm, base)
    ]
    columns = ("Curve", "Arm", "Output length", "Default, s", "Arm, s", "Arm ÷ default (95 %)")
    return Table(columns, rows, frozenset(columns[2:]))
