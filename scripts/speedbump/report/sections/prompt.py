"""Prompt length: do the edges follow the output length or prompt and output together."""

import altair as alt

from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve, groups_differing_in, spoken_without
from speedbump.report.layers import chart_of, tip, x_of
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import HALF, colour, length_axis, length_range, state_colour
from speedbump.report.verdict import edges
from speedbump.report.words import lengths, listing, plural, seconds, sentence

MOST = 2
EMPTY = Section("prompt", "Prompt", "Prompt length", empty="Filled by an experiment with two or more n_prompt.")
VIEWS = (("output", "output length (tokens)"), ("total", "prompt + output (tokens)"))

Group = list[Curve]
"""Curves alike but for the prompt, the shortest first."""


def groups(study: Study) -> list[Group]:
    """Groups with prompts of different length, the most affected first."""
    return [
        sorted(group, key=lambda curve: curve.row["n_prompt"])
        for group in groups_differing_in(study.curves, "n_prompt")
    ]


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Two charts a group: the same points along the output length and along the total length."""
    charts, extra = [], {}
    for group in groups(study)[:MOST]:
        name = f"prompt-{group[0].key}"
        for view, title in VIEWS:
            points, bands = _rows(group, datasets, view)
            extra[f"{name}-{view}"], extra[f"{name}-{view}-bands"] = points, bands
            charts.append(_chart(name, view, title, group, points))
    return Drawing(charts, extra)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    every = groups(study)
    if not every:
        return EMPTY
    shown = every[:MOST]
    more = "" if len(every) <= MOST else f" {MOST} of {plural(len(every), 'group')} are shown."
    return Section(
        anchor="prompt",
        nav="Prompt",
        finding=prompt_finding(shown[0]),
        lead=f"One row a prompt. Edges that stand under each other follow that axis.{more}",
        key=(("dot normal", "normal length"), ("dot slow", "slow length"), ("band slow", "within which an edge lies")),
        figures=[
            Figure((f"prompt-{group[0].key}-{view}",), f"{_name(group)}, by {title}", "", tuple(c.key for c in group))
            for group in shown
            for view, title in VIEWS
        ],
        caption="A bracket runs from the last length that is surely normal to the first that is surely slow.",
        table=_table(shown),
        file="regimes",
    )


def prompt_finding(group: Group) -> str:
    """The title: whether one onset fits all prompts, counted in output or in total length."""
    slow = [curve for curve in group if curve.accepted]
    prompts = listing(str(curve.row["n_prompt"]) for curve in group)
    if not slow:
        return f"With prompts of {prompts} tokens, {_name(group)} shows no slow regime"
    if len(slow) < len(group):
        inside = listing(str(curve.row["n_prompt"]) for curve in slow)
        outside = listing((str(curve.row["n_prompt"]) for curve in group if not curve.accepted), "or")
        return f"{_name(group)} has a slow regime with a prompt of {inside}, and none is shown with {outside}"
    onset_output, onset_total = _common(slow, "onset", 0), _common(slow, "onset", 1)
    text = f"With prompts of {prompts} tokens, "
    match onset_output, onset_total:
        case True, True:
            return f"{text}one onset fits all, counted in output length or in prompt and output together"
        case True, False:
            return f"{text}one onset fits all, counted in output length alone"
        case False, True:
            return f"{text}one onset fits all, counted in prompt and output together"
        case False, False:
            return f"{text}the onset moves, in output length and in prompt and output together"
    return f"{text}where the slow regime begins is not known for each"


def _common(curves: Group, edge: str, weight: int) -> bool | None:
    """Whether the brackets of all curves' first regimes share a length; None when one is open."""
    brackets: list[tuple[int, int]] = []
    for curve in curves:
        regime = curve.accepted[0]
        low, high = regime.onset_low, regime.onset_high
        if low is None or high is None:
            return None
        shift = weight * curve.row["n_prompt"]
        brackets.append((low + shift, high + shift))
    return max(low for low, _ in brackets) < min(high for _, high in brackets)


def _name(group: Group) -> str:
    """The curves' common name, without the prompt."""
    return spoken_without(group[0], "prompt ")


def _rows(group: Group, datasets: dict[str, Rows], view: str) -> tuple[Rows, Rows]:
    points: Rows = []
    bands: Rows = []
    for curve in group:
        prompt = str(curve.row["n_prompt"])
        shift = curve.row["n_prompt"] if view == "total" else 0
        for row in datasets[curve.key]:
            text = f"{'at least ' if row['bound'] else ''}{seconds(row['y'])}"
            points.append(
                {"n": row["n"] + shift, "prompt": prompt, "state": row["state"], "output": row["n"], "text": text}
            )
        for band in datasets[f"{curve.key}-spans"]:
            bands.append({"a": band["a"] + shift, "z": band["z"] + shift, "prompt": prompt, "kind": band["kind"]})
    return points, bands


def _chart(name: str, view: str, title: str, group: Group, points: Rows) -> Chart:
    x = length_axis(title)
    y = alt.Y("prompt:N", sort=None).axis(
        title="prompt", titleAngle=0, titleAlign="left", titleAnchor="end", titleX=-42, titleY=-13, minExtent=44
    )
    bands = [
        chart_of("bands")
        .transform_filter(f"datum.kind == '{kind}'")
        .mark_bar(fill=colour("slow"), fillOpacity=opacity, height=14)
        .encode(x=x_of("a", x), x2="z:Q", y=y)
        for kind, opacity in (("edge", 0.18), ("core", 0.4))
    ]
    dots = (
        chart_of("points")
        .mark_point(filled=True, size=40, opacity=1)
        .encode(
            x=x,
            y=y,
            color=state_colour(),
            tooltip=[
                tip("prompt", "prompt"),
                tip("output", "output length"),
                tip("text", "latency"),
                tip("state", "state"),
            ],
        )
    )
    regimes = "; ".join(
        f"prompt {curve.row['n_prompt']}: "
        + (listing(lengths(r.first_slow, r.last_slow) for r in curve.accepted) if curve.accepted else "none found")
        for curve in group
    )
    return make_chart(
        f"{name}-{view}",
        [*bands, dots],
        {"points": f"{name}-{view}", "bands": f"{name}-{view}-bands"},
        length_range([row["n"] for row in points], HALF),
        HALF,
        f"{_name(group)}. Slow output lengths by prompt length: {regimes}.",
        height=max(60, 44 * len(group)),
    )


def _table(shown: list[Group]) -> Table:
    rows = [
        (
            _name(group),
            curve.row["n_prompt"],
            listing(lengths(r.first_slow, r.last_slow) for r in curve.accepted) or "none found",
            sentence("; ".join(edges(regime) for regime in curve.accepted)) if curve.accepted else "",
        )
        for group in shown
        for curve in group
    ]
    columns = ("Curve", "Prompt", "Slow output lengths", "Edges")
    return Table(columns, rows, frozenset(columns[1:2]))
