"""Step times: do all steps slow down, or some."""

import math
from collections.abc import Mapping
from statistics import median
from typing import Any

import altair as alt
import polars as pl

from speedbump.analyse.step_times import find_slow_steps
from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import Curve
from speedbump.report.layers import chart_of, tip
from speedbump.report.points import short
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import HALF, WIDE, colour, round_lengths
from speedbump.report.words import capitalised, digits, plural, seconds

MOST = 2
MOST_TILES = 2_000
SHADES = 6
EMPTY = Section("steps", "Steps", "Step times", empty="Filled by runs with instrument: per_step.")

Steps = dict[int, list[float]]
"""By output length, the median over its requests of every step's seconds, prefill first."""


def steps_of(study: Study, curve: Curve) -> Steps:
    """Step times of the curve's finished measured requests."""
    timed = study.requests.filter(
        (pl.col("series") == curve.series)
        & (pl.col("phase") == "measured")
        & (pl.col("status") == "ok")
        & (pl.col("step_s").list.len() > 1)
    )
    steps = (
        timed.select("n_gen", "step_s", step=pl.int_ranges(pl.col("step_s").list.len()))
        .explode("step_s", "step")
        .group_by("n_gen", "step")
        .agg(pl.col("step_s").median())
        .sort("n_gen", "step")
        .group_by("n_gen", maintain_order=True)
        .agg("step_s")
    )
    return dict(steps.iter_rows())


def drawn(study: Study) -> list[tuple[Curve, Steps]]:
    """The most affected curves whose steps were timed."""
    timed = set(study.requests.filter(pl.col("step_s").list.len() > 1)["series"].to_list())
    found = [(curve, steps_of(study, curve)) for curve in study.curves if curve.series in timed]
    return [(curve, steps) for curve, steps in found if steps][:MOST]


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """A heatmap a curve: step along x, output length along y."""
    charts, extra = [], {}
    shown = drawn(study)
    for curve, steps in shown:
        rows = tiles(steps)
        extra[f"steps-{curve.key}"] = rows
        charts.append(_chart(curve, steps, WIDE if len(shown) == 1 else HALF))
    return Drawing(charts, extra)


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figures and values."""
    shown = drawn(study)
    if not shown:
        return EMPTY
    bounds = shade_bounds([step for _, steps in shown for values in steps.values() for step in values[1:]])
    found = {row["series"]: row for row in find_slow_steps(study.requests).series.iter_rows(named=True)}
    key = tuple((f"shade{number}", f"{_shade_words(bounds, number)}") for number in range(SHADES))
    return Section(
        anchor="steps",
        nav="Steps",
        finding=step_finding(*shown[0]),
        lead="Time of each decode step, by its place in the request. Timing every step slows the request itself down.",
        key=key,
        figures=[
            Figure((f"steps-{c.key}",), c.spoken, slow_step_note(c, found.get(c.series)), (c.key,)) for c, _ in shown
        ],
        caption="A tile is the mean of neighbouring steps, of the median over the requests. Prefill is left out.",
        table=_table(shown),
        file="requests",
    )


FOLLOWS = {
    "position": "so it follows the position in the request alone",
    "state": "so it follows what the process did before, not the position",
    "can't tell": "so position and state cannot be told apart",
}


def slow_step_note(curve: Curve, row: Mapping[str, Any] | None) -> str:
    """What the slow steps of a curve's requests follow, from its row of SERIES_STEPS. Without a slow regime there is
    nothing to follow: a busy host, or a cache that is off, also gives slow steps.
    """
    if row is None:
        return ""
    if row["follows"] == "nothing":
        return "No request has slow steps."
    if not curve.accepted:
        return (
            f"{row['n_slow_requests']} of {plural(row['n_requests'], 'request')} have steps above the usual time at "
            "their place. The curve shows no slow regime, so nothing is concluded from them."
        )
    return (
        f"{row['n_slow_requests']} of {plural(row['n_requests'], 'request')} have slow steps: from request "
        f"{row['first_slow_request'] + 1} of the process on, and typically from step {row['first_slow_step']}. "
        f"{capitalised(row['why'])}, {FOLLOWS[row['follows']]}."
    )


def step_finding(curve: Curve, steps: Steps) -> str:
    """The title: how many steps of the worst length are slow against the normal length before it."""
    regime = curve.worst
    inside = regime.worst_n_gen if regime is not None else None
    outside = [n for n in steps if regime is not None and (n < regime.first_slow or n > regime.last_slow)]
    if regime is not None and inside in steps and outside:
        near = min(outside, key=lambda n: abs(n - inside))
        usual = median(steps[near][1:])
        share = sum(step > 2 * usual for step in steps[inside][1:]) / (len(steps[inside]) - 1)
        count = "All" if share == 1 else "None" if share == 0 else f"{share:.0%}"
        return (
            f"{count} of the steps at {inside} tokens take more than twice the median step at {near} ({seconds(usual)})"
        )
    medians = [median(values[1:]) for values in steps.values()]
    low, high = seconds(min(medians)), seconds(max(medians))
    return f"The median step of {curve.spoken} takes {low if low == high else f'{low} to {high}'}"


def tiles(steps: Steps) -> Rows:
    """At most MOST_TILES tiles: output length, first and last step, milliseconds, shade."""
    width = max(1, math.ceil(max(map(len, steps.values())) * len(steps) / MOST_TILES))
    bounds = shade_bounds([step for values in steps.values() for step in values[1:]])
    rows: Rows = []
    for n, values in steps.items():
        for first in range(1, len(values), width):
            part = values[first : first + width]
            mean = sum(part) / len(part)
            shade = sum(mean >= bound for bound in bounds)
            rows.append({"n": n, "a": first, "z": first + len(part), "ms": short(mean * 1000, 3), "shade": f"{shade}"})
    return rows


def shade_bounds(values: list[float]) -> list[float]:
    """Seconds at which one shade gives way to the next: equal ratios from the fastest to the slowest step."""
    low, high = min(values), max(values)
    return [low * (high / low) ** (number / SHADES) for number in range(1, SHADES)]


def _shade_words(bounds: list[float], number: int) -> str:
    if number == 0:
        return f"below {digits(bounds[0] * 1000, 2)} ms"
    return f"from {digits(bounds[number - 1] * 1000, 2)}"


def _chart(curve: Curve, steps: Steps, width: int) -> Chart:
    longest = max(map(len, steps.values()))
    shades = [str(number) for number in range(SHADES)]
    shade = alt.Scale(domain=shades, range=[colour(f"shade{number}") for number in shades])
    x = (
        alt.X("a:Q")
        .scale(domain=[0, alt.ExprRef("x_max")], nice=False)
        .axis(title="step", grid=False, format="d", values=alt.ExprRef("x_ticks"))
    )
    y = alt.Y("n:O").axis(title=None, minExtent=44, maxExtent=44).scale(padding=0.06)
    tile = (
        chart_of("tiles")
        .transform_calculate(
            step_text="datum.a + (datum.z - datum.a > 1 ? '–' + (datum.z - 1) : '')",
            time_text="format(datum.ms, '.3~r') + ' ms'",
        )
        .mark_rect(strokeWidth=0.75)
        .encode(
            x=x,
            x2="z:Q",
            y=y,
            color=alt.Color("shade:N").scale(shade),
            stroke=alt.Stroke("shade:N").scale(shade),
            tooltip=[
                alt.Tooltip("n:O", title="output length"),
                tip("step_text", "steps"),
                tip("time_text", "mean step"),
            ],
        )
    )
    numbers = "; ".join(f"{n}, {seconds(median(values[1:]))}" for n, values in list(steps.items())[:40])
    return make_chart(
        f"steps-{curve.key}",
        [tile],
        {"tiles": f"steps-{curve.key}"},
        {"x_max": longest, "x_ticks": round_lengths(0, longest, width // 80)},
        width,
        f"{step_finding(curve, steps)}. Median step by output length: {numbers}.",
        height=max(120, min(420, 22 * len(steps))),
    )


def _table(shown: list[tuple[Curve, Steps]]) -> Table:
    rows = []
    for curve, steps in shown:
        for n, values in steps.items():
            ordered = sorted(values[1:])
            rows.append(
                (
                    curve.name,
                    n,
                    *(digits(ordered[int(share * (len(ordered) - 1))] * 1000) for share in (0.05, 0.5, 0.95, 1)),
                )
            )
    columns = ("Curve", "Output length", "5th percentile, ms", "Median, ms", "95th percentile, ms", "Slowest, ms")
    caption = f"{plural(len(rows), 'length')}; every step is in the data file."
    return Table(columns, rows, frozenset(columns[1:]), caption)
