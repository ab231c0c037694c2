"""Refinement: which budgets to measure next, and why, one round of all series at a time."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl

from speedbump.analyse.curve import SLOW_FROM
from speedbump.analyse.evidence import LEAST_NORMAL
from speedbump.analyse.regimes import Findings
from speedbump.analyse.verdict import SUSPECT
from speedbump.grid.study import Protocol, Refinement

Row = dict[str, Any]

KINDS = ("repeat", "probe", "confirm", "gap")
"""In the order in which limits are spent."""

CUT_AT = 2.5
"""A probe's request is stopped at so many times what a normal one is expected to take."""
PROBE_MOST_REPEATS = 5
NORMAL_BELOW = 1.2
"""A probe whose requests all lie below so many times what a normal one takes is normal."""
ONE_IS_ENOUGH = 4.0
"""From this slow-down one request of a probe tells the states apart; below it two."""


@dataclass(frozen=True)
class Planned:
    """One cell to measure: the series' axes with this budget, process number and protocol.

    why: one sentence.  predicted_s: seconds that its requests should take.
    probe: for the worker, None for a cell with a fixed number of requests:
      min_repeats, max_repeats: measured requests, at least and at most.
      normal_below_s, slow_above_s: after min_repeats and each further request the cell ends when all its
      measured requests took less than the one or all more than the other; a stopped one took more.
      stop_at_s: a request that reaches it is stopped and kept as a lower bound; absent: none is.
    """

    series: str
    n_gen: int
    kind: str
    why: str
    process: int
    warmups: int
    repeats: int
    predicted_s: float
    probe: Row | None = field(default=None)

    def as_row(self) -> Row:
        """For a plan file; ``probe`` only where there is one."""
        row = asdict(self)
        if self.probe is None:
            del row["probe"]
        return row


@dataclass(frozen=True)
class _Known:
    """What refinement needs to know of one series."""

    row: Row
    regimes: list[Row]
    budgets: list[Row]
    attempts: dict[int, int]

    @property
    def series(self) -> str:
        return str(self.row["series"])

    def expected_s(self, n_gen: int) -> float:
        """Seconds that a normal request of this budget takes, log-log interpolated."""
        known = [b for b in self.budgets if b["expected_s"] is not None]
        if not known:
            known = [b | {"expected_s": b["latency_s"]} for b in self.budgets]
        x = np.log([b["n_gen"] for b in known])
        return math.exp(float(np.interp(math.log(n_gen), x, np.log([b["expected_s"] for b in known]))))


def plan_round(requests: pl.DataFrame, findings: Findings, settings: Refinement, round: int) -> list[Planned]:
    """The cells of one round, for all series at once; none: refinement has ended.

    In this order: budgets that were disturbed, those whose requests or processes disagree, and stretches without
    enough evidence are repeated in another process; the middle of every bracket wider than settings.width is probed;
    the edges of brackets that are narrow enough, and one budget inside, are confirmed in another process; gaps are
    halved.
    Nothing that was tried is planned again, and nothing outside the budgets measured. Persistent processes
    are left alone: their budgets are measured together.
    """
    if round > settings.rounds:
        return []
    wanted = [
        planned for known in _known_series(requests, findings) for planned in _plan_series(known, settings, round)
    ]
    wanted.sort(key=lambda planned: KINDS.index(planned.kind))
    return _within_limits(wanted, settings)


def _within_limits(wanted: list[Planned], settings: Refinement) -> list[Planned]:
    kept: list[Planned] = []
    seconds = 0.0
    for planned in wanted:
        seconds += planned.predicted_s
        if settings.max_cells is not None and len(kept) >= settings.max_cells:
            break
        if settings.max_hours is not None and seconds > settings.max_hours * 3600:
            break
        kept.append(planned)
    return kept


def _known_series(requests: pl.DataFrame, findings: Findings) -> Iterator[_Known]:
    persistent = requests.filter(pl.col("lifetime") == "persistent")["series"].unique()
    series = findings.series.filter(pl.col("n_budgets") > 1, ~pl.col("series").is_in(persistent.implode()))
    attempts = requests.group_by("series", "n_gen").agg(pl.col("process").max())
    tables = [_by_series(frame) for frame in (findings.regimes, findings.budgets, attempts)]
    for row in series.iter_rows(named=True):
        regimes, budgets, tried = (table.get(row["series"], []) for table in tables)
        yield _Known(row, regimes, budgets, {a["n_gen"]: a["process"] for a in tried})


def _by_series(frame: pl.DataFrame) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in frame.iter_rows(named=True):
        grouped.setdefault(row["series"], []).append(row)
    return grouped


def _plan_series(known: _Known, settings: Refinement, round: int) -> Iterator[Planned]:
    planned: dict[int, Planned] = {}
    for candidate in _candidates(known, settings, round):
        if candidate is not None:
            planned.setdefault(candidate.n_gen, candidate)
    yield from planned.values()


def _candidates(known: _Known, settings: Refinement, round: int) -> Iterator[Planned | None]:
    for budget in known.budgets:
        if budget["disturbed"] and budget["state"] == "unclear" and not known.row["busy"]:
            why = "it was measured while the machine was busy"
            yield _settle(known, settings, settings.protocol, budget["n_gen"], "repeat", why)
        elif budget["unstable"]:
            yield _settle(known, settings, settings.protocol, budget["n_gen"], "repeat", "requests sit in both states")
        elif budget["state"] == "unclear" and (budget["p_slow"] or 0.0) >= SUSPECT and not _in_regime(known, budget):
            why = f"slow with probability {budget['p_slow']:.2f}"
            yield _settle(known, settings, settings.protocol, budget["n_gen"], "repeat", why)
    for regime in known.regimes:
        if not regime["accepted"]:
            why = f"looks slow, evidence too weak ({regime['reason']})"
            for n_gen in {regime["first_slow"], regime["last_slow"]}:
                yield _settle(known, settings, settings.protocol, n_gen, "repeat", why)
        yield from _bisect(known, settings, regime)
    for regime in known.regimes:
        if regime["accepted"] and not regime["confirmed"]:
            yield from _confirm(known, settings, regime, round == settings.rounds)
    yield from _fill_gaps(known, settings)


def _in_regime(known: _Known, budget: Row) -> bool:
    return any(r["first_slow"] <= budget["n_gen"] <= r["last_slow"] for r in known.regimes)


def _bisect(known: _Known, settings: Refinement, regime: Row) -> Iterator[Planned | None]:
    what = _noun(regime)
    for edge, low, high in _brackets(regime):
        if high - low <= settings.width:
            continue
        for budget in known.budgets:
            if low < budget["n_gen"] < high:
                why = f"state unclear between {low} and {high}, where the {what} {edge}s"
                yield _settle(known, settings, settings.protocol, budget["n_gen"], "repeat", why)
        why = f"middle of the bracket {low} to {high}, where the {what} {edge}s"
        yield _probe(known, settings, low, high, "probe", why, regime["slowdown"])


def _noun(regime: Row) -> str:
    return "slow regime" if regime["kind"] == "regime" else "step"


def _brackets(regime: Row) -> Iterator[tuple[str, int, int]]:
    if regime["onset_low"] is not None:
        yield "begin", regime["onset_low"], regime["onset_high"]
    if regime["recovery_high"] is not None:
        yield "end", regime["recovery_low"], regime["recovery_high"]


def _confirm(known: _Known, settings: Refinement, regime: Row, last: bool) -> Iterator[Planned | None]:
    """Edges that are narrow enough; a budget inside with the first of them, or in the last round."""
    what = _noun(regime)
    narrow = [(edge, low, high) for edge, low, high in _brackets(regime) if high - low <= settings.width]
    for edge, low, high in narrow:
        states = ("normal", "slow") if edge == "begin" else ("slow", "normal")
        for n_gen, state in zip((low, high), states, strict=True):
            if _processes(known, n_gen) < 2:
                why = f"confirms the {state} side of the edge {low} to {high}, where the {what} {edge}s"
                yield _settle(known, settings, settings.protocol, n_gen, "confirm", why)
    inner = [b for b in known.budgets if regime["onset_high"] < b["n_gen"] < regime["recovery_low"]]
    inner = inner or [b for b in known.budgets if regime["onset_high"] <= b["n_gen"] <= regime["recovery_low"]]
    if inner and (narrow or last) and all(b["n_processes"] < 2 for b in inner):
        why = f"confirms the {what} {regime['onset_high']} to {regime['recovery_low']} in another process"
        brief = Protocol(warmups=settings.probe_warmups, repeats=settings.probe_repeats)
        yield _settle(known, settings, brief, inner[len(inner) // 2]["n_gen"], "confirm", why)


def _processes(known: _Known, n_gen: int) -> int:
    return next((b["n_processes"] for b in known.budgets if b["n_gen"] == n_gen), 0)


def _fill_gaps(known: _Known, settings: Refinement) -> Iterator[Planned | None]:
    places = [b["n_gen"] for b in known.budgets]
    n_normal = sum(b["state"] == "normal" for b in known.budgets)
    steps = list(itertools.pairwise(places))
    if settings.gap is not None:
        for low, high in steps:
            if high - low > settings.gap:
                why = f"halves the step {low} to {high}, in which a narrower regime could hide"
                yield _probe(known, settings, low, high, "gap", why, None)
        return
    if known.row["verdict"] != "undetermined":
        return
    if n_normal < LEAST_NORMAL:
        low, high = max(steps, key=lambda step: step[1] - step[0])
        if high - low > settings.width:
            yield _probe(known, settings, low, high, "gap", "too few normal budgets to compare with", None)
    for end, (low, high) in ((known.budgets[0], steps[0]), (known.budgets[-1], steps[-1])):
        if end["state"] == "unclear" and not end["unstable"] and not known.regimes and high - low > settings.width:
            yield _probe(known, settings, low, high, "gap", "the curve bends at its end, or is slow there", None)


def _settle(known: _Known, settings: Refinement, protocol: Protocol, n_gen: int, kind: str, why: str) -> Planned | None:
    """The budget in a further process; None when it had its share of processes."""
    process = known.attempts.get(n_gen, 0) + 1
    if process > settings.processes:
        return None
    latency = next((b["latency_s"] for b in known.budgets if b["n_gen"] == n_gen), known.expected_s(n_gen))
    seconds = latency * (protocol.warmups + protocol.repeats)
    sentence = f"Process {process} at {n_gen} tokens: {why}."
    return Planned(known.series, n_gen, kind, sentence, process, protocol.warmups, protocol.repeats, seconds)


def _probe(
    known: _Known, settings: Refinement, low: int, high: int, kind: str, why: str, slowdown: float | None
) -> Planned | None:
    """The budget nearest to the middle of the bracket that was never tried; None when all were."""
    middle = (low + high) / 2
    free = [n for n in range(low + 1, high) if n not in known.attempts]
    if not free:
        return None
    n_gen = min(free, key=lambda n: (abs(n - middle), n))
    expected = known.expected_s(n_gen)
    probe = _probe_record(settings, expected, slowdown) if kind == "probe" and settings.early_end else None
    requests = settings.probe_warmups + settings.probe_repeats
    seconds = expected * math.sqrt(slowdown or 1.0) * requests
    sentence = f"First process at {n_gen} tokens: {why}."
    return Planned(
        known.series, n_gen, kind, sentence, 1, settings.probe_warmups, settings.probe_repeats, seconds, probe
    )


def _probe_record(settings: Refinement, expected_s: float, slowdown: float | None) -> Row:
    """Fixed limits by which the worker may end a probe; see Planned."""
    level = max(slowdown or SLOW_FROM, SLOW_FROM)
    least = min(settings.probe_repeats, 1 if level >= ONE_IS_ENOUGH else 2)
    record: Row = {
        "min_repeats": least,
        "max_repeats": max(PROBE_MOST_REPEATS, settings.probe_repeats),
        "normal_below_s": _rounded(expected_s * NORMAL_BELOW),
        "slow_above_s": _rounded(expected_s * max(SLOW_FROM, min(math.sqrt(level), CUT_AT))),
    }
    if settings.cut:
        record["stop_at_s"] = _rounded(expected_s * CUT_AT)
    return record


def _rounded(seconds: float) -> float:
    """Three digits: the limits are part of a cell's identity, and should read well."""
    return float(f"{seconds:.3g}")
