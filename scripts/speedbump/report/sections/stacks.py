"""Stacks: what an upgrade fixed or broke."""

from dataclasses import dataclass
from itertools import pairwise

import altair as alt

from speedbump.grid.stack import stack_order
from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, groups_differing_in, stack_titles
from speedbump.report.layers import chart_of, tip, x_of
from speedbump.report.points import short
from speedbump.report.published import Published
from speedbump.report.ratios import Ratio, most_changed, ratios
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import WIDE, colour, log_range
from speedbump.report.words import listing, plural, seconds, times

THRESHOLD = 1.1
"""A smaller change is called unchanged, whatever its interval: nobody would notice it."""
MOST = 24
KEY = (("hollow off", "old stack"), ("dot normal", "new stack, faster"), ("dot slow", "new stack, slower"))
EMPTY = Section(
    "stacks",
    "Stacks",
    "Stacks",
    empty="Filled by running the study again under another version of the system, PyTorch or Transformers.",
)


@dataclass(frozen=True)
class Change:
    """A curve under two stacks, at its most changed length. compared: how many lengths both have."""

    old: Curve
    new: Curve
    ratio: Ratio
    compared: int

    @property
    def word(self) -> str:
        """``faster``, ``slower`` or ``unchanged``."""
        if not self.ratio.differs or 1 / THRESHOLD < self.ratio.ratio < THRESHOLD:
            return "unchanged"
        return "faster" if self.ratio.ratio < 1 else "slower"


def changes(study: Study) -> list[Change]:
    """Every pair of neighbouring stacks, old and new, the largest change first."""
    found = []
    for group in groups_differing_in(study.curves, "stack"):
        ordered = sorted(group, key=lambda curve: stack_order(curve.row["stack"]))
        for old, new in pairwise(ordered):
            common = len(ratios(new, old))
            if common:
                found.append(Change(old, new, most_changed(ratios(new, old, comparisons=common)), common))
    return sorted(found, key=lambda change: (change.word == "unchanged", change.ratio.ratio, change.new.key))


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """One dumbbell a changed curve, old to new, on a common logarithmic scale."""
    changed = [change for change in changes(study) if change.word != "unchanged"][:MOST]
    if not changed:
        return Drawing([], {})
    titles = stack_titles({curve.row["stack"] for curve in study.curves})
    rows = [_row(number, change, titles) for number, change in enumerate(changed)]
    return Drawing([_chart(rows, changed)], {"stacks": rows})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    every = changes(study)
    if not every:
        return EMPTY
    drawn = any(change.word != "unchanged" for change in every)
    keys = [curve.key for change in every for curve in (change.old, change.new)]
    titles = stack_titles({curve.row["stack"] for curve in study.curves})
    return Section(
        anchor="stacks",
        nav="Stacks",
        finding=stack_finding(every, titles),
        lead="Each curve at the length that changed most between two neighbouring stacks.",
        key=KEY if drawn else (),
        figures=[Figure(("stacks",), curves=tuple(dict.fromkeys(keys)))] if drawn else (),
        caption="Changed: the interval, widened for the number of lengths compared, leaves out 1, and the change is "
        f"at least {times(THRESHOLD)}. Both stacks may differ in more than the version named.",
        table=_table(every, titles),
        file="budgets",
    )


def stack_finding(every: list[Change], titles: dict[str, str]) -> str:
    """The title: how many curves an upgrade changed, and the largest change."""
    changed = [change for change in every if change.word != "unchanged"]
    if not changed:
        return f"No change is shown in {plural(len(every), 'curve')} compared between stacks"
    counts = [
        f"{count} {'is' if count == 1 else 'are'} {word}"
        for word in ("faster", "slower")
        if (count := sum(change.word == word for change in changed))
    ]
    most = max(changed, key=lambda change: max(change.ratio.ratio, 1 / change.ratio.ratio))
    old, new = titles[most.old.row["stack"]], titles[most.new.row["stack"]]
    amount = f"{most.ratio.bound} {times(most.ratio.ratio)}".strip()
    return (
        f"Of {plural(len(every), 'curve')} compared, {listing(counts)}; the largest change is {most.new.model} on "
        f"{most.new.device} at {most.ratio.n} tokens, {amount} the time with {new} of that with {old}"
    )


def _row(number: int, change: Change, titles: dict[str, str]) -> dict[str, object]:
    old, new = titles[change.old.row["stack"]], titles[change.new.row["stack"]]
    return {
        "row": f"{_name(change.new)}, {change.ratio.n}: {old} to {new.removeprefix('torch ')}",
        "number": number,
        "old": short(change.ratio.base_s),
        "new": short(change.ratio.latency_s),
        "word": change.word,
        "curve": change.new.name,
        "old_text": f"{seconds(change.ratio.base_s)} ({old})",
        "new_text": f"{seconds(change.ratio.latency_s)} ({new})",
        "ratio_text": change.ratio.words,
    }


def _name(curve: Curve) -> str:
    """The curve's name without its stack, which comes last where a machine has several."""
    return ", ".join((curve.model, curve.device, *curve.apart[:-1]))


def _chart(rows: Rows, changed: list[Change]) -> Chart:
    ranges = log_range([row[side] for row in rows for side in ("old", "new")])
    domain = [alt.ExprRef("x_min"), alt.ExprRef("x_max")]
    x = (
        alt.X("old:Q")
        .scale(type="log", domain=domain, nice=False)
        .axis(title="seconds (log scale)", values=alt.ExprRef("x_ticks"), format="~g")
    )
    y = alt.Y("number:O").axis(None).scale(padding=0.1)
    pairs = chart_of("stacks")
    tips = [
        tip("curve", "curve"),
        tip("old_text", "before"),
        tip("new_text", "after"),
        tip("ratio_text", "after ÷ before"),
    ]
    shade = alt.Color("word:N").scale(domain=["faster", "slower"], range=[colour("normal"), colour("slow")])
    layers = [
        pairs.mark_text(align="left", baseline="bottom", dy=-7).encode(x=alt.value(0), y=y, text="row:N"),
        pairs.mark_rule(strokeWidth=2, opacity=0.6).encode(x=x, x2="new:Q", y=y, color=shade),
        pairs.mark_point(size=60, opacity=1, stroke=colour("off"), strokeWidth=1.75, fill=colour("bg")).encode(
            x=x, y=y, tooltip=tips
        ),
        pairs.mark_point(filled=True, size=70, opacity=1).encode(x=x_of("new", x), y=y, color=shade, tooltip=tips),
    ]
    numbers = "; ".join(f"{row['curve']}: {row['old_text']} to {row['new_text']}" for row in rows)
    parameters = {name.replace("y_", "x_"): value for name, value in ranges.items()}
    description = f"Latency before and after at the most changed length. {numbers}."
    return make_chart("stacks", layers, {"stacks": "stacks"}, parameters, WIDE, description, height=50 * len(changed))


def _table(every: list[Change], titles: dict[str, str]) -> Table:
    rows = [
        (
            _name(change.new),
            titles[change.old.row["stack"]],
            titles[change.new.row["stack"]],
            change.ratio.n,
            seconds(change.ratio.base_s),
            seconds(change.ratio.latency_s),
            change.ratio.words,
            change.compared,
            change.word,
        )
        for change in every
    ]
    columns = ("Curve", "Old", "New", "Output length", "Old, s", "New, s", "New ÷ old", "Lengths", "Change")
    return Table(columns, rows, frozenset(columns[3:8]))
