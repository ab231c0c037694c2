"""Refinement simulated: what repeating, confirming and bisecting do to verdicts and edges, and what they cost."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from bench.answers import Answer
from bench.curves import Scenario, Simulated
from bench.requests import Run, requests_table
from speedbump.analyse.curve import Array
from speedbump.analyse.refinement import Planned, plan_round
from speedbump.analyse.regimes import Findings, find_regimes
from speedbump.grid.study import Protocol, Refinement

Measure = Callable[[Planned], list[Run]]
NO_BISECTION = 1_000_000


def refine(requests: pl.DataFrame, settings: Refinement, measure: Measure) -> tuple[pl.DataFrame, Findings]:
    """All rounds of refinement, until nothing is planned. Returns all requests and the last findings."""
    for number in range(1, settings.rounds + 1):
        findings = find_regimes(requests, notice=False)
        planned = plan_round(requests, findings, settings, number)
        if not planned:
            return requests, findings
        new = requests_table(run for cell in planned for run in measure(cell))
        requests = pl.concat([requests, new])
    return requests, find_regimes(requests, notice=False)


def answer_after_confirmation(drawn: Simulated, scenario: Scenario, rng: np.random.Generator) -> Answer:
    """What is said of a scenario's series once doubtful and slow budgets were measured in further processes.

    Further processes have the scenario's own noise and cold starts; a disturbance of one cell does not return.
    """
    budget = drawn.curve.budget.astype(int).tolist()
    limits = drawn.limits if drawn.limits is not None else np.full(len(budget), math.inf)

    def measure(cell: Planned) -> list[Run]:
        i = budget.index(cell.n_gen)
        offset = rng.normal(0, scenario.process_sd)
        offset += math.log(scenario.cold_factor) * (rng.random() < scenario.cold_share)
        return stop(cell.n_gen, cell.process, drawn.again(i, cell.repeats, rng) + offset, float(limits[i]))

    first = [
        run
        for i, n in enumerate(budget)
        for run in stop(n, 1, drawn.curve.pooled(i) if drawn.raw is None else drawn.raw[i], float(limits[i]))
    ]
    settings = Refinement(
        width=NO_BISECTION,
        rounds=4,
        max_cells=None,
        max_hours=None,
        protocol=Protocol(warmups=0, repeats=max(scenario.repeats, 3)),
    )
    _, findings = refine(requests_table(first), settings, measure)
    regimes = findings.regimes.filter("accepted")
    index = {n: i for i, n in enumerate(budget)}
    return Answer(
        [(index[a], index[b]) for a, b in regimes.select("first_slow", "last_slow").rows()],
        [
            (value, low, math.nan if high is None else high)
            for value, low, high in regimes.select("slowdown", "slowdown_low", "slowdown_high").rows()
        ],
        findings.series["verdict"].item(),
        tuple(index[n] for n in findings.budgets.filter("unstable")["n_gen"]),
    )


def stop(n_gen: int, process: int, logs: Array, limit: float) -> list[Run]:
    """The runs of one process: requests in turn, until one reaches the limit, which ends the process."""
    late = np.flatnonzero(logs >= limit)
    finished = logs[: late[0]] if len(late) else logs
    runs = [Run("s", n_gen, tuple(np.exp(finished).tolist()), process)] if len(finished) else []
    if len(late):
        runs.append(Run("s", n_gen, (math.exp(limit),), process, status="stopped", lower_bound=True))
    return runs


@dataclass
class Cost:
    """Requests (warm-ups among them) and seconds."""

    requests: int = 0
    seconds: float = 0.0

    def spend(self, seconds: list[float]) -> None:
        self.requests += len(seconds)
        self.seconds += sum(seconds)


@dataclass(frozen=True)
class EdgeTask:
    """One simulated machine with one regime, first to last budget inclusive, slow by ``slowdown``."""

    first: int
    last: int
    slowdown: float
    rng: np.random.Generator = field(repr=False)
    noise: float = 0.03
    slow_noise: float = 0.10
    outliers: float = 0.02
    smallest: int = 128
    largest: int = 768

    def seconds(self, n_gen: int) -> float:
        """One request: 10 ms a token, disturbed now and then by 1.5 to 3."""
        slow = self.first <= n_gen <= self.last
        log_s = math.log(0.01 * n_gen + 0.1) + math.log(self.slowdown) * slow
        log_s += float(self.rng.normal(0, self.slow_noise if slow else self.noise))
        if self.rng.random() < self.outliers:
            log_s += math.log(self.rng.uniform(1.5, 3))
        return math.exp(log_s)


@dataclass(frozen=True)
class EdgeResult:
    """found: a regime is reported.  exact: with both edges to one token.  lost: none is reported or doubted."""

    found: bool
    exact: bool
    lost: bool
    confirmed: bool
    cost: Cost


def find_edges(task: EdgeTask, step: int = 32, settings: Refinement | None = None) -> EdgeResult:
    """Scan with the step, two repeats and one warm-up, then refine to one token; the worker's rules for ending
    and cutting probes are followed.
    """
    settings = settings or Refinement(width=1, rounds=20, max_cells=None, max_hours=None, cut=True)
    cost = Cost()

    def measure(cell: Planned) -> list[Run]:
        probe = cell.probe or {"min_repeats": cell.repeats, "max_repeats": cell.repeats}
        limit = probe.get("stop_at_s", math.inf)
        warm = [min(task.seconds(cell.n_gen), limit) for _ in range(cell.warmups)]
        taken: list[float] = []
        while len(taken) < probe["max_repeats"]:
            taken.append(min(task.seconds(cell.n_gen), limit))
            if len(taken) >= probe["min_repeats"] and cell.probe and _agree(taken, cell.probe):
                break
        cost.spend(warm + taken)
        finished = tuple(t for t in taken if t < limit)
        runs = [Run("s", cell.n_gen, finished, cell.process)] if finished else []
        stopped = tuple(t for t in taken if t >= limit)
        if stopped:
            runs.append(Run("s", cell.n_gen, stopped, cell.process, status="stopped", lower_bound=True))
        return runs

    scan = [Planned("s", n, "scan", "", 1, 1, 2, 0.0) for n in range(task.smallest, task.largest + 1, step)]
    _, findings = refine(requests_table(run for cell in scan for run in measure(cell)), settings, measure)
    regimes = list(findings.regimes.filter("accepted").iter_rows(named=True))
    edges = (task.first - 1, task.first, task.last, task.last + 1)
    exact = [r for r in regimes if (r["onset_low"], r["onset_high"], r["recovery_low"], r["recovery_high"]) == edges]
    overlap = any(r["first_slow"] <= task.last and r["last_slow"] >= task.first for r in regimes)
    return EdgeResult(
        overlap,
        bool(exact),
        not overlap and findings.series["verdict"].item() == "smooth",
        any(r["confirmed"] for r in exact),
        cost,
    )


def _agree(taken: list[float], probe: dict[str, float]) -> bool:
    return all(t > probe["slow_above_s"] for t in taken) or all(t < probe["normal_below_s"] for t in taken)


def full_grid(task: EdgeTask, step: int = 16, warmups: int = 3, repeats: int = 5) -> Cost:
    """What measuring every budget of a grid costs, with nothing refined."""
    cost = Cost()
    for n_gen in range(task.smallest, task.largest + 1, step):
        cost.spend([task.seconds(n_gen) for _ in range(warmups + repeats)])
    return cost


@dataclass(frozen=True)
class EdgeSummary:
    """Means over simulated machines: shares, requests and minutes, and those of the full grid."""

    slowdown: float
    found: float
    exact: float
    confirmed: float
    lost: float
    requests: float
    minutes: float
    grid_requests: float
    grid_minutes: float


def draw_edge_task(slowdown: float, k: int, seed: int = 0) -> EdgeTask:
    """The k-th simulated machine: a regime 32 to 143 tokens wide, normal budgets on both sides."""
    rng = np.random.default_rng([int(10 * slowdown), k, *([seed] if seed else [])])
    width = int(rng.integers(32, 144))
    first = int(rng.integers(160, 768 - width - 32))
    return EdgeTask(first, first + width - 1, slowdown, rng)


def summarise_edges(slowdown: float, n: int, seed: int = 0) -> EdgeSummary:
    """Find the edges of ``n`` machines, and measure the full grid of each."""
    results, grids = [], []
    for k in range(n):
        task = draw_edge_task(slowdown, k, seed)
        results.append(find_edges(task))
        grids.append(full_grid(task))
    return EdgeSummary(
        slowdown,
        found=_mean(r.found for r in results),
        exact=_mean(r.exact for r in results),
        confirmed=_mean(r.confirmed for r in results),
        lost=_mean(r.lost for r in results),
        requests=_mean(r.cost.requests for r in results),
        minutes=_mean(r.cost.seconds for r in results) / 60,
        grid_requests=_mean(g.requests for g in grids),
        grid_minutes=_mean(g.seconds for g in grids) / 60,
    )


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
