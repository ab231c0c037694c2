"""Devices and machines: who is affected."""

from collections import Counter

from speedbump.grid.stack import stack_order
from speedbump.report.changes import every_change, machine_sentences
from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, groups_differing_in
from speedbump.report.layers import LATENCY_TEXTS, LENGTH_TIP, line_layer, point_layer, span_layers, tip
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import length_axis, length_range, log_range, value_axis
from speedbump.report.verdict import VERDICT_WORDS, advise, spans_words
from speedbump.report.words import listing, plural, sentence

MOST = 6
WIDTH, HEIGHT = 310, 170
EMPTY = Section(
    "devices",
    "Devices",
    "Devices and machines",
    empty="Filled by the same model on another device, or by runs brought from another machine.",
)

Group = list[Curve]
"""Curves of one model on different devices or machines."""


def groups(study: Study) -> list[Group]:
    """Groups alike but for device and machine, the most affected first.

    Of several stacks the one that most share is taken, and the newest of those.
    """
    found = []
    for group in groups_differing_in(study.curves, "device", "machine", "stack"):
        stacks = Counter(curve.row["stack"] for curve in group)
        places: dict[tuple[str, str], Curve] = {}
        newest_first = sorted(group, key=lambda curve: stack_order(curve.row["stack"]), reverse=True)
        for curve in sorted(newest_first, key=lambda curve: -stacks[curve.row["stack"]]):
            places.setdefault((curve.row["device"], curve.row["machine"]), curve)
        if len(places) > 1:
            kept = {curve.key for curve in places.values()}
            found.append([curve for curve in group if curve.key in kept])
    return found


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Small charts with one scale a group."""
    return Drawing([chart for group in _shown(study) for chart in _charts(group, datasets)], {})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    every = groups(study)
    if not every:
        return EMPTY
    shown = _shown(study)
    more = "" if len(every) == len(shown) else f" {len(shown)} of {plural(len(every), 'model')} are drawn."
    return Section(
        anchor="devices",
        nav="Devices",
        finding=device_finding(every[0]),
        lead=f"The same model under the same conditions, on one scale for each model.{more}{_machines(study)}",
        key=(("dot normal", "normal length"), ("dot slow", "slow length")),
        small=[Figure((f"devices-{curve.key}",), curve.name, "", (curve.key,)) for group in shown for curve in group],
        caption="Another machine may also differ in its system and versions.",
        table=_table(every),
        file="series",
    )


def _machines(study: Study) -> str:
    """What every two machines differ in, their accelerators taken together."""
    told = machine_sentences(every_change(study))
    return "".join(f" {sentence(text)}" for text in told[:MOST])


def device_finding(group: Group) -> str:
    """The title: on which devices or machines the model has a slow regime."""
    machines = len({curve.row["machine"] for curve in group}) > 1
    places = {curve.key: f"{curve.device} ({curve.row['machine']})" if machines else curve.device for curve in group}

    def with_verdict(*verdicts: str) -> list[str]:
        return list(dict.fromkeys(places[curve.key] for curve in group if curve.verdict in verdicts))

    slow, smooth, stepped = with_verdict("slow regimes"), with_verdict("smooth"), with_verdict("step")
    other = with_verdict("excess", "rate change", "undetermined")
    parts = [f"has a slow regime on {listing(slow)}"] if slow else []
    parts += [f"takes a step on {listing(stepped)}"] if stepped else []
    parts += (
        [f"shows none on {listing(smooth)}" if slow else f"shows no slow regime on {listing(smooth)}"] if smooth else []
    )
    parts += [f"cannot be judged on {listing(other)}"] if other else []
    return f"{group[0].model} {listing(parts)}"


def _shown(study: Study) -> list[Group]:
    shown: list[Group] = []
    for group in groups(study):
        room = MOST - sum(map(len, shown))
        if room >= 2:
            shown.append(group[:room])
    return shown


def _charts(group: Group, datasets: dict[str, Rows]) -> list[Chart]:
    points = [row for curve in group for row in datasets[curve.key]]
    parameters = {
        **length_range([row["n"] for row in points], WIDTH),
        **log_range([row[name] for row in points for name in ("y", "lo", "hi") if row[name]]),
    }
    charts = []
    for curve in group:
        x, y = length_axis(), value_axis("y", "seconds (log)")
        tips = [LENGTH_TIP, tip("latency_text", "latency"), tip("factor_text", "against the trend")]
        layers = [
            *span_layers(x, label=False),
            line_layer(x, y, "y"),
            point_layer(x, y, "y", tips, LATENCY_TEXTS, size=24),
        ]
        data = {"curve": curve.key, "spans": f"{curve.key}-spans"}
        description = f"{curve.spoken}: {VERDICT_WORDS[curve.verdict]}. On the scale of the model's other curves."
        charts.append(make_chart(f"devices-{curve.key}", layers, data, parameters, WIDTH, description, HEIGHT))
    return charts


def _table(every: list[Group]) -> Table:
    rows = [
        (
            curve.model,
            curve.device,
            curve.row["machine"],
            curve.row["stack"],
            VERDICT_WORDS[curve.verdict],
            spans_words(advise(curve).avoid) or "none found",
        )
        for group in every
        for curve in group
    ]
    return Table(("Model", "Device", "Machine", "Stack", "Verdict", "Slow lengths"), rows)
