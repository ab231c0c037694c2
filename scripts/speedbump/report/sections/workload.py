"""Your workload: how much of it falls into slow regimes, and what it would cost."""

from dataclasses import dataclass

import altair as alt
import numpy as np
import polars as pl

from speedbump.analyse.workload import KINDS, Answer, Estimate, Expected, Workload, estimate, kinds, weighted_quantile
from speedbump.report.charts import Chart, Drawing, Rows, make_chart
from speedbump.report.curves import SERIES_AXES, Curve, spoken_without
from speedbump.report.layers import chart_of, span_layers, tip
from speedbump.report.published import Published
from speedbump.report.section import Figure, Section, Table
from speedbump.report.study import Study
from speedbump.report.theme import WIDE, colour, length_axis, length_range, linear_range, value_axis
from speedbump.report.words import digits, plural, seconds, sentence

MOST_BARS = 80
EMPTY = Section(
    "workload",
    "Workload",
    "Your workload",
    empty="Filled by a CSV of the lengths your application uses (n_prompt, n_gen, perhaps count), named in the study.",
)
KEY = (
    ("square normal", "normal length"),
    ("square slow", "in a slow regime"),
    ("square off", "between a normal and a slow length, or unclear"),
    ("square hollow off", "outside the measured lengths"),
)


@dataclass(frozen=True)
class Judged:
    """A workload on one group of curves that differ in the prompt alone, and what a replay of it took, if any."""

    curves: list[Curve]
    estimate: Estimate
    replay: dict[str, float] | None

    @property
    def name(self) -> str:
        return spoken_without(self.curves[0], "prompt ")


def judge(study: Study) -> list[Judged]:
    """The workload on every group of curves of fresh processes, the most affected first."""
    if study.workload is None or not study.workload.n_requests:
        return []
    kept = [axis for axis in (*SERIES_AXES, "machine", "stack") if axis != "n_prompt"]
    groups: dict[tuple[object, ...], list[Curve]] = {}
    for curve in study.curves:
        if curve.fresh and not curve.budgets.is_empty():
            groups.setdefault(tuple(curve.row[axis] for axis in kept), []).append(curve)
    judged = [
        Judged(
            curves,
            estimate(study.workload, [Answer(c.row["n_prompt"], c.budgets) for c in curves]),
            _replay(study, curves[0]),
        )
        for curves in groups.values()
    ]
    return sorted(judged, key=lambda one: (-one.estimate.slow, one.name))


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """The workload's lengths, coloured by what the most affected curve is there."""
    judged = judge(study)
    if not judged or study.workload is None:
        return Drawing([], {})
    curve = judged[0].curves[0]
    bars = histogram(study.workload, curve)
    return Drawing([_chart(judged[0], curve, bars)], {"workload": bars})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding, figure and values."""
    judged = judge(study)
    if study.workload is None or not judged:
        return EMPTY
    workload = study.workload
    bad = ""
    if workload.n_bad:
        named = "; ".join(f"line {row.line}: {row.reason}" for row in workload.bad[:3])
        bad = f" {plural(workload.n_bad, 'row')} left out ({named}{'; …' if workload.n_bad > 3 else ''})."
    far = judged[0].estimate.far
    prompts = f" {share(far)} of the requests have a prompt far from those measured." if far else ""
    return Section(
        anchor="workload",
        nav="Workload",
        finding=workload_finding(judged[0]),
        lead=f"{plural(workload.n_requests, 'request')} by output length.{bad}{prompts}",
        key=KEY,
        figures=[Figure(("workload",), f"Requests by output length, judged by {judged[0].name}")],
        caption=sentence(
            "What is expected holds for a fresh process that repeats one length, not for these requests in a row"
            + ("" if any(one.replay for one in judged) else "; a replay run of this workload would tell")
        ),
        table=_table(judged),
        open=True,
    )


def workload_finding(judged: Judged) -> str:
    """The title: which share falls into a slow regime, and how much of the time it takes."""
    found = judged.estimate
    outside = f"; {share(found.outside)} lie outside the measured lengths" if found.outside else ""
    edge = f"; {share(found.edge)} lie where it is not known" if found.edge else ""
    if not found.slow:
        return f"No request of this workload falls into a slow regime found for {judged.name}{edge}{outside}"
    time = f" and would take {share(found.slow_time)} of the time" if found.slow_time else ""
    return f"{share(found.slow)} of this workload falls into a slow regime of {judged.name}{time}{edge}{outside}"


def share(value: float) -> str:
    """A share in per cent, never rounded to none or all."""
    if 0 < value < 0.001:
        return "less than 0.1%"
    if 0.999 < value < 1:
        return "more than 99.9%"
    return f"{value * 100:.3g}%"


def histogram(workload: Workload, curve: Curve) -> Rows:
    """Requests by output length, at most MOST_BARS bars a kind: first and last length, requests, kind."""
    n_gen, count = (workload.requests[name].to_numpy() for name in ("n_gen", "count"))
    low, high = int(n_gen.min()), int(n_gen.max())
    width = max(1, -(-(high - low + 1) // MOST_BARS))
    table = pl.DataFrame({"bin": (n_gen - low) // width, "kind": kinds(n_gen, curve.budgets), "count": count})
    bins = table.group_by("bin", "kind").agg(pl.col("count").sum()).sort("bin", "kind")
    rows: Rows = []
    base: dict[int, int] = {}
    for number, kind, requests in bins.iter_rows():
        start = low + number * width
        below = base.get(number, 0)
        base[number] = below + requests
        rows.append(
            {
                "n": start,
                "z": start + width,
                "low": below,
                "y": below + requests,
                "count": requests,
                "kind": KINDS[kind],
            }
        )
    return rows


def _replay(study: Study, curve: Curve) -> dict[str, float] | None:
    """Quantiles and sum of what a replay of the workload took on the same model, device, machine and stack."""
    same = [pl.col(name) == curve.row[name] for name in ("model", "device", "machine", "stack")]
    replayed = study.requests.filter(
        *same, pl.col("order") == "replay", pl.col("phase") == "measured", pl.col("status") == "ok"
    )
    if replayed.is_empty():
        return None
    taken, ones = replayed["e2e_s"].to_numpy(), np.ones(replayed.height, dtype=np.int64)
    quantiles = {f"p{number}": weighted_quantile(taken, ones, number / 100) for number in (50, 95, 99)}
    return {**quantiles, "mean": float(taken.mean()), "requests": float(replayed.height)}


def _chart(judged: Judged, curve: Curve, bars: Rows) -> Chart:
    x, y = length_axis(), value_axis("y", "requests", log=False)
    shades = alt.Scale(domain=list(KINDS), range=[colour(name) for name in ("normal", "slow", "off", "rule")])
    mark = (
        chart_of("bars")
        .transform_calculate(lengths_text="datum.n + (datum.z - datum.n > 1 ? '–' + (datum.z - 1) : '')")
        .mark_rect(stroke=colour("bg"), strokeWidth=0.5)
        .encode(
            x=x,
            x2="z:Q",
            y=y,
            y2="low:Q",
            color=alt.Color("kind:N").scale(shades),
            tooltip=[tip("lengths_text", "output length"), tip("count", "requests"), tip("kind", "kind")],
        )
    )
    ends = [value for row in bars for value in (row["n"], row["z"])]
    parameters = {**length_range(ends, WIDE), **linear_range([float(row["y"]) for row in bars])}
    data = {"bars": "workload", "spans": f"{curve.key}-spans"}
    description = f"{workload_finding(judged)}. Requests by output length from {min(ends)} to {max(ends)} tokens."
    return make_chart("workload", [*span_layers(x), mark], data, parameters, WIDE, description, height=180)


def _table(judged: list[Judged]) -> Table:
    rows = []
    for one in judged:
        found = one.estimate
        rows.append(
            (
                one.name,
                share(found.slow),
                share(found.edge),
                share(found.outside),
                share(found.slow_time) if found.slow_time is not None else "",
                *(_range(value) for value in (found.p50, found.p95, found.p99, found.total)),
                _replayed(one.replay),
            )
        )
    columns = ("Curve", "Slow", "Not known", "Outside", "Slow share of time", "p50", "p95", "p99", "Total", "Replay")
    note = "Expected latency with what the 95 % intervals and unknown edges allow. Times leave out what lies outside."
    return Table(columns, rows, frozenset(columns[1:]), note)


def _range(value: Expected | None) -> str:
    """``26.5 s (6.68–116)``, in hours when it is long; ``at least`` where nothing bounds it above."""
    if value is None:
        return "not known"
    scale, unit = (3600.0, "h") if value.low >= 7200 else (1.0, "s")
    if value.high is None:
        return f"at least {digits(value.low / scale)} {unit}"
    low, centre, high = (digits(part / scale) for part in (value.low, value.centre, value.high))
    return f"{centre} {unit} ({low}–{high})"


def _replayed(replay: dict[str, float] | None) -> str:
    if replay is None:
        return "not run"
    quantiles = ", ".join(f"{name} {seconds(replay[name])}" for name in ("p50", "p95", "p99"))
    return f"{quantiles}, mean {seconds(replay['mean'])} of {plural(int(replay['requests']), 'request')}"
