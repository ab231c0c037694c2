"""The page with the benchmark's result, as Markdown."""

import csv
import math
import re
from pathlib import Path

from scipy.special import bdtr

from bench.goals import AFTERWARDS, GOALS, SMOOTH_AT_ONCE, Goal, Kept, Row
from bench.refinement import EdgeSummary

EARLIER = Path(__file__).with_name("earlier_prototype.csv")
"""The method's research prototype on the first 100 series of each scenario (10 of 600 budgets), measured once in
one process: no confirmation. That code is not part of this project."""

HARD = f"{SMOOTH_AT_ONCE}|{AFTERWARDS}|(bimodal|cut|one-repeat|confirmed)/.*|bump/.*/n(3|4|5|600)"
HARD_COLUMNS = {
    "false_alarms": "false alarms",
    "undetermined": "undetermined",
    "found": "found",
    "exact": "exact",
    "covered": "covered",
    "unstable_seen": "told unstable",
}

METHOD_NAMES = {
    "regimes": "this method",
    "theil_sen_ratio": "Theil-Sen line, 1.4x",
    "trimmed_envelope": "trimmed envelope, 1.4x",
}

COMPARED = (
    ("2x, 1 budget, inside", r"bump/F2/w1/mid/n(12|40)/s0\.05", "exact"),
    ("5x, 8 budgets, inside", r"bump/F5/w8/mid/n(12|40)/s0\.05", "exact"),
    ("2x, 8 budgets, edge", r"bump/F2/w8/edge/n(12|40)/s0\.05", "exact"),
    ("2x step", r"step/F2/n(12|40)", "exact"),
    ("false alarms, 5 % noise", r"null/(affine|quad|power|kink|tile|saw|plateau)/n40/s0\.05", "false_alarms"),
    ("false alarms, 15 % noise", r"null/(affine|quad|power|kink|tile|saw|plateau)/n40/s0\.15", "false_alarms"),
    ("false alarms, rough curves", r"null/rough/n40/.*", "false_alarms"),
    ("false alarms, slow drift", r"null/drift30/n40", "false_alarms"),
)

HEAD = """# How well slow regimes are found

Simulated series of known truth: {n_scenarios} scenarios, {n_series} series each. Made by

    python scripts/bench_regimes.py --series {n_series} --seed {seed} --page docs/regimes.md

The figures come out the same again, times aside: every series is drawn from its scenario's name, its number and the
seed. {chosen}`scripts/bench/scenarios.py` and `families.py` list the scenarios, `scoring.py` says what is counted.

Of {n_series} series, {some} false alarms stay within 1 %. A scenario in which one series in 200 raises one passes
{passes:.0f} times in a hundred, one in which it is one in 50 {fails:.0f} times.

- *Found*: at least half of a regime's budgets are reported. *Exact*: all of them and no other. *Called*: by the right
  verdict, and a step between the right lengths.
- *Undetermined*: the verdict says that the data cannot tell, and what to measure.
- *False alarm*: a regime, a step or a changed rate where there is none.
- *After confirmation*: once the budgets that looked slow or doubtful were measured again, as the refinement plan
  asks, in other processes.

Simulated noise is not real noise. What the table promises holds for disturbances of these kinds: a curve of which a
normal part rises by 1.4 beyond its trend is called a regime, and so is a disturbance that hits every request of a
budget in every process that measured it.

On a machine that does other work, whole cells are slow by chance, and one process cannot tell them from slow
budgets: a CPU curve recorded under a load of four to seven on two cores gives regimes of 2 to 3 times when one
process of it is read alone. A second process of each budget shows it, or the fixed workload that the pipeline runs
before each process, and the verdict is then *undetermined* (`tests/analyse/test_real_noise.py`).

## Goals

Worst scenario, and the mean over the scenarios in brackets; `bench_regimes.py --family NAME` prints the scenarios of a
family, such as `steps` or `load`, one by one. *Earlier*: the method's research prototype on the first
100 series of the scenario at seed 0, in one process.
"""
COMPARED_HEAD = """
## Against two plain thresholds

Budgets exact, 5 % noise, 12 and 40 budgets; false alarms, 40 budgets.

"""
EDGES_HEAD = """
## Edges to one token

Regimes 32 to 143 tokens wide somewhere in 128 to 768. Scan of step 32 with one warm-up and two repeats, then
bisection by probes that end early and are cut, both sides of both edges confirmed with three warm-ups and five
repeats. Against a full grid of step 16 with three warm-ups and five repeats, whose edges are known to 16 tokens.
Warm-ups count. The scan promises regimes at least as wide as its step, for each holds one of its budgets.

"""
HARD_HEAD = """
## The harder scenarios

In brackets the earlier prototype in one process, with nothing measured again.

"""


def render_page(rows: list[Row], edges: list[EdgeSummary], n_series: int, seed: int = 0) -> str:
    """The whole page. ``rows``: Score.row of every scenario and method."""
    own = [row for row in rows if row["method"] == "regimes"]
    earlier = _read_earlier()
    some = n_series // 100
    head = HEAD.format(
        n_scenarios=len(own),
        n_series=n_series,
        seed=seed,
        chosen="The method's numbers were chosen on other seeds, nothing on this one. " if seed else "",
        some=some,
        passes=100 * bdtr(some, n_series, 1 / 200),
        fails=100 * bdtr(some, n_series, 1 / 50),
    )
    parts = [head, _goals(own, earlier), _compared(rows)]
    parts += [_edges(edges)] if edges else []
    parts.append(_hard_scenarios(own, earlier))
    return "\n".join(parts)


def render_summary(rows: list[Row]) -> str:
    """For a terminal: a line a scenario, a line a family, and how their goals stand."""
    shown = ("false_alarms", "undetermined", "right", "found", "exact", "noticed", "covered")
    lines = [f"{'':52}" + "".join(f"{column:>14}" for column in (*shown, "ms"))]
    by_family: dict[str, list[Row]] = {}
    for row in rows:
        by_family.setdefault(str(row["scenario"]).split("/")[0], []).append(row)
        lines.append(f"{row['scenario']:52}" + "".join(_cell(row[column], column) for column in (*shown, "ms")))
    for family, own in by_family.items():
        known = {column: [float(r[column] or 0) for r in own if r[column] is not None] for column in (*shown, "ms")}
        means = (_cell(math.fsum(v) / len(v) if v else None, column) for column, v in known.items())
        lines.append(f"{f'mean of {family}, {len(own)} scenarios':52}" + "".join(means))
    for goal in GOALS:
        kept = goal.of(rows)
        if kept is not None:
            met = "met    " if goal.is_met(kept) else "NOT MET"
            lines.append(f"{met}  {goal.name}: {_told(goal, kept)}, {_limit(goal)}; worst {kept.scenario}")
    return "\n".join(lines)


def _cell(value: float | int | str | None, column: str) -> str:
    if value is None:
        return f"{'':>14}"
    return f"{float(value):>14.1f}" if column == "ms" else f"{100 * float(value):>12.1f} %"


def _read_earlier() -> list[Row]:
    with EARLIER.open(newline="") as file:
        return [
            {k: (v if k == "scenario" else float(v) if v else None) for k, v in row.items()}
            for row in csv.DictReader(file)
        ]


def _table(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _goals(own: list[Row], earlier: list[Row]) -> str:
    body = []
    for goal in GOALS:
        kept = goal.of(own)
        if kept is None:
            continue
        before = goal.of(earlier)
        body.append(
            [
                goal.name,
                _told(goal, kept),
                _told(goal, before) if before else "",
                _limit(goal),
                "yes" if goal.is_met(kept) else "no",
                kept.scenario if kept.n > 1 else "",
            ]
        )
    return _table(["promise", "measured", "earlier", "goal", "met", "worst scenario"], body)


def _told(goal: Goal, kept: Kept) -> str:
    if goal.column == "ms":
        return f"{kept.worst:.1f} ({kept.mean:.1f})"
    return f"{100 * kept.worst:.1f} % ({100 * kept.mean:.2f})" if kept.n > 1 else f"{100 * kept.worst:.1f} %"


def _limit(goal: Goal) -> str:
    if goal.column == "ms":
        return f"at most {goal.limit:g}"
    word = "at most" if goal.at_most else "at least"
    mean = f" ({100 * goal.mean_limit:g})" if goal.mean_limit is not None else ""
    return f"{word} {100 * goal.limit:g} %{mean}"


def _compared(rows: list[Row]) -> str:
    body = []
    for method, name in METHOD_NAMES.items():
        cells = [name]
        for _, pattern, column in COMPARED:
            known = [
                float(row[column] or 0)
                for row in rows
                if row["method"] == method and re.fullmatch(pattern, str(row["scenario"]))
            ]
            cells.append(f"{100 * sum(known) / len(known):.1f} %" if known else "")
        body.append(cells)
    return COMPARED_HEAD + _table(["", *(name for name, _, _ in COMPARED)], body)


def _edges(edges: list[EdgeSummary]) -> str:
    body = [
        [
            f"{e.slowdown:g}x",
            f"{100 * e.found:.0f} %",
            f"{100 * e.exact:.0f} %",
            f"{100 * e.confirmed:.0f} %",
            f"{100 * e.lost:.0f} %",
            f"{e.requests:.0f} of {e.grid_requests:.0f} ({100 * e.requests / e.grid_requests:.0f} %)",
            f"{e.minutes:.0f} of {e.grid_minutes:.0f}",
        ]
        for e in edges
    ]
    head = ["slow-down", "found", "edges exact to 1 token", "confirmed", "lost", "requests", "minutes"]
    return EDGES_HEAD + _table(head, body)


def _hard_scenarios(own: list[Row], earlier: list[Row]) -> str:
    before = {row["scenario"]: row for row in earlier}
    body = []
    for row in own:
        name = str(row["scenario"])
        if not re.fullmatch(HARD, name):
            continue
        columns = [c for c in HARD_COLUMNS if c != "unstable_seen" or name.startswith("bimodal")]
        shown = {c: _percent(row[c], before.get(name, {}).get(c)) for c in columns}
        body.append([name, str(row["series"]), *(shown.get(column, "") for column in HARD_COLUMNS)])
    head = ["scenario", "series", *(f"{name} %" for name in HARD_COLUMNS.values())]
    return HARD_HEAD + _table(head, body)


def _percent(value: float | int | str | None, before: float | int | str | None) -> str:
    if value is None:
        return ""
    was = "" if before is None else f" ({100 * float(before):.1f})"
    return f"{100 * float(value):.1f}{was}"
