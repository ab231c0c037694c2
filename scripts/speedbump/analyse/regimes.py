"""The slow regimes of every series: from the table of requests to those of budgets, series and regimes."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from speedbump.analyse.aside import Aside
from speedbump.analyse.brackets import SURELY_NORMAL, SURELY_SLOW
from speedbump.analyse.confidence import centre_interval
from speedbump.analyse.curve import SLOW_FROM, Array, Curve, Indices, read_curves, without_profiles
from speedbump.analyse.disturbance import examine_quiet, is_busy, judge_whole, set_aside
from speedbump.analyse.examine import examine
from speedbump.analyse.noticed import with_noticeable
from speedbump.analyse.reference import Reference, find_references
from speedbump.analyse.segments import Anatomy, Segment
from speedbump.analyse.step_times import find_rate_changes
from speedbump.analyse.summary import Summary, summarise
from speedbump.analyse.verdict import Verdict, is_confirmed, stopped_tail
from speedbump.tables import BUDGETS, REGIMES, SERIES, STATUSES, Table

Row = dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """Three tables: tables.SERIES, tables.REGIMES, tables.BUDGETS."""

    series: pl.DataFrame
    regimes: pl.DataFrame
    budgets: pl.DataFrame


def find_regimes(requests: pl.DataFrame, notice: bool = True) -> Findings:
    """The slow regimes of every series of a ``requests`` table, with verdicts and intervals.

    notice: whether to ask what would have been noticed, which takes most of the time.

    The method, step by step: curve.read_curves (which requests count), summary, trend, states, evidence,
    confidence, brackets, levels, monotonicity, rate, pattern, verdict, noticed.
    """
    requests = without_profiles(requests)
    identities = {row["series"]: row for row in _identities(requests).iter_rows(named=True)}
    curves, of_steps = dict(read_curves(requests)), find_rate_changes(requests)
    found: dict[str, Anatomy | None] = dict.fromkeys(identities)
    for name, curve in curves.items():
        anatomy = examine_quiet(curve, of_steps.get(name))
        found[name] = with_noticeable(anatomy) if notice and not is_busy(curve) else anatomy
    silent = [name for name, anatomy in found.items() if anatomy is None or anatomy.curve.censored.all()]
    spoken = {name: anatomy for name, anatomy in found.items() if anatomy is not None and name not in silent}
    quiet = {name: anatomy for name, anatomy in spoken.items() if not is_busy(curves[name])}
    settled = find_references(_identities(requests), quiet)
    return _assemble(identities, found, {name: _nothing_finished(requests, name) for name in silent}, settled, curves)


def findings_of_curves(curves: dict[str, Curve]) -> Findings:
    """The same for curves of which nothing but the latencies is known; the axes are null."""
    found = {name: with_noticeable(examine(curve)) for name, curve in curves.items()}
    silent = {name: "no request finished" for name, curve in curves.items() if curve.censored.all()}
    return _assemble({name: {"series": name} for name in curves}, found, silent, {}, curves)


def _assemble(
    identities: Mapping[str, Row],
    found: Mapping[str, Anatomy | None],
    silent: Mapping[str, str],
    settled: Mapping[str, Reference],
    curves: Mapping[str, Curve],
) -> Findings:
    series, regimes, budgets = [], [], []
    for name, identity in identities.items():
        anatomy = found[name]
        if anatomy is not None:
            budgets += budget_rows(name, anatomy, curves[name])
        if name in silent or anatomy is None:
            series.append(identity | _not_measured(silent[name]))
            continue
        row = series_row(anatomy, judge_whole(anatomy, curves[name])) | _load_row(curves[name])
        if row["busy"]:
            series.append(identity | row)
            continue
        if name in settled:
            series.append(identity | row | _slow_throughout(settled[name]))
            regimes.append({"series": name, "regime": 1} | _regime_throughout(anatomy, settled[name]))
            continue
        series.append(identity | row)
        regimes += regime_rows(name, anatomy)
    return Findings(_frame(series, SERIES), _frame(regimes, REGIMES), _frame(budgets, BUDGETS))


def _load_row(curve: Curve) -> Row:
    """What else the machine did."""
    known = {"n_cells": curve.load.n_cells, "n_disturbed": curve.load.n_disturbed} if curve.load else {}
    return {**known, "busy": is_busy(curve)}


def _identities(requests: pl.DataFrame) -> pl.DataFrame:
    """One row a series: its id and the axes that all its cells share."""
    shared = [name for name in SERIES.schema if name in requests.columns]
    return requests.select(shared).unique("series", keep="first", maintain_order=True).sort("series")


def _frame(rows: Iterable[Row], table: Table) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=table.schema, orient="row")


def _nothing_finished(requests: pl.DataFrame, series: str) -> str:
    """Why a series has no latency: its requests' statuses, counted."""
    own = requests.filter(pl.col("series") == series)
    counts = own.group_by("status").len().sort("len", "status", descending=[True, False])
    told = [f"{n} {'request' if n == 1 else 'requests'} {STATUSES.get(s, s)}" for s, n in counts.rows() if s != "ok"]
    return "nothing finished: " + "; ".join(told or ["the table has warm-up requests only"])


def _slow_throughout(reference: Reference) -> Row:
    """What a reference changes in the row of a series that is slow at every budget."""
    return {
        "verdict": "excess",
        "reason": reference.told(),
        "n_regimes": 1,
        "slowdown_max": reference.slowdown,
        **dict.fromkeys(("noticed", "noticed_ends", "called", "called_ends")),
        "next": "Measure smaller budgets, until some are normal.",
    }


def _regime_throughout(anatomy: Anatomy, reference: Reference) -> Row:
    """The regime of such a series: open on both sides, its slow-down against the reference."""
    budget, centre = anatomy.curve.budget.astype(int).tolist(), anatomy.summary.centre
    return {
        "kind": "regime",
        "accepted": True,
        "first_slow": budget[0],
        "last_slow": budget[-1],
        "onset_high": budget[0],
        "recovery_low": budget[-1],
        "open_left": True,
        "open_right": True,
        "slowdown": reference.slowdown,
        "slowdown_low": reference.low,
        "slowdown_high": reference.high,
        "lower_bound": False,
        "confirmed": False,
        "worst_n_gen": budget[-1],
        "worst_s": math.exp(centre[-1]),
        "worst_expected_s": math.exp(centre[-1]) / reference.slowdown,
    }


def _not_measured(reason: str) -> Row:
    """The row of a series without a latency, its identity aside."""
    return {
        "verdict": "not measured",
        "reason": reason,
        "n_budgets": 0,
        "n_regimes": 0,
        "n_processes": 0,
        "falls": False,
        "next": "Measure smaller budgets, or with a longer limit.",
    }


def series_row(anatomy: Anatomy, verdict: Verdict) -> Row:
    """A series' row, its identity aside."""
    curve, fall = anatomy.curve, anatomy.fall
    slowdowns = [segment.slowdown.value for segment in anatomy.accepted]
    if is_busy(curve):
        return _nothing_called(anatomy, verdict)
    stop = stopped_tail(anatomy)
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "n_budgets": curve.n,
        "n_gen_min": int(curve.budget[0]),
        "n_gen_max": int(curve.budget[-1]),
        "n_regimes": sum(not segment.is_step for segment in anatomy.accepted),
        "slowdown_max": max(slowdowns, default=None),
        "n_processes": int(processes_of(anatomy).max()),
        "falls": bool(fall and fall.significant),
        "fall_from": int(curve.budget[fall.before]) if fall else None,
        "fall_to": int(curve.budget[fall.after]) if fall else None,
        "fall_ratio": fall.ratio if fall else None,
        "fall_p": fall.p if fall else None,
        **_noticeable_row(anatomy),
        **_rate_row(anatomy),
        "narrowest": int(np.diff(curve.budget).max()) if curve.n > 1 else None,
        "stopped_from": stop and stop.first,
        "stopped_by": stop and stop.by,
        "next": verdict.next,
    }


def _nothing_called(anatomy: Anatomy, verdict: Verdict) -> Row:
    """The row of a curve that was measured while the machine was busy: of its latencies nothing is said."""
    curve = anatomy.curve
    return {
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "n_budgets": curve.n,
        "n_gen_min": int(curve.budget[0]),
        "n_gen_max": int(curve.budget[-1]),
        "n_regimes": 0,
        "n_processes": int(processes_of(anatomy).max()),
        "falls": False,
        "next": verdict.next,
    }


def _noticeable_row(anatomy: Anatomy) -> Row:
    """What of the series' budgets would have been noticed, and called. None where a stretch that was found, or doubted,
    is not larger: it was seen, and so would others of its size have been.
    """
    if anatomy.noticeable is None:
        return {}
    limit = min((segment.slowdown.value for segment in anatomy.segments), default=math.inf)
    (noticed, called), (noticed_ends, called_ends) = anatomy.noticeable.between_ends(), anatomy.noticeable.at_ends()
    values = {"noticed": noticed, "noticed_ends": noticed_ends, "called": called, "called_ends": called_ends}
    return {name: value if value < limit else None for name, value in values.items()}


def _rate_row(anatomy: Anatomy) -> Row:
    rate = anatomy.rate
    if rate is None:
        return {}
    return {
        "rate_from": round(rate.at),
        "rate_from_low": round(rate.low),
        "rate_from_high": round(rate.high),
        "rate_ratio": rate.ratio.value,
        "rate_ratio_low": rate.ratio.low,
        "rate_ratio_high": rate.ratio.high,
    }


def regime_rows(series: str, anatomy: Anatomy) -> list[Row]:
    """A row for every stretch that looks slow."""
    return [{"series": series, "regime": k} | _regime_row(s, anatomy) for k, s in enumerate(anatomy.segments, 1)]


def _regime_row(segment: Segment, anatomy: Anatomy) -> Row:
    assert anatomy.expectation is not None
    curve, expected, centre = anatomy.curve, anatomy.expectation.log_latency, anatomy.summary.centre
    if not segment.is_step:
        expected = expected + anatomy.level
    at = slice(segment.first, segment.last + 1)
    worst = segment.first + int(np.argmax((centre - expected)[at]))
    (onset_low, onset_high), (recovery_low, recovery_high) = segment.brackets.onset, segment.brackets.recovery
    levels = [
        {
            "first": int(curve.budget[segment.first + level.first]),
            "last": int(curve.budget[segment.first + level.last]),
            "slowdown": round(level.slowdown, 4),
        }
        for level in segment.levels
    ]
    return {
        "kind": segment.kind,
        "accepted": segment.accepted,
        "reason": segment.reason,
        "first_slow": int(curve.budget[segment.first]),
        "last_slow": int(curve.budget[segment.last]),
        "onset_low": None if onset_low is None else int(curve.budget[onset_low]),
        "onset_high": int(curve.budget[onset_high]),
        "recovery_low": int(curve.budget[recovery_low]),
        "recovery_high": None if recovery_high is None else int(curve.budget[recovery_high]),
        "open_left": segment.first == 0,
        "open_right": segment.last == curve.n - 1,
        "slowdown": segment.slowdown.value,
        "slowdown_low": segment.slowdown.low,
        "slowdown_high": _number(segment.slowdown.high),
        "slowdown_neighbour": _number(segment.neighbours.slowdown),
        "lower_bound": bool(curve.censored[at].any()),
        "confirmed": segment.accepted and is_confirmed(anatomy, segment),
        "levels": json.dumps(levels) if len(levels) > 1 else None,
        "worst_n_gen": int(curve.budget[worst]),
        "worst_s": math.exp(centre[worst]),
        "worst_expected_s": math.exp(expected[worst]),
    }


def budget_rows(series: str, anatomy: Anatomy, curve: Curve) -> list[Row]:
    """A row for every budget of the whole curve, in order; of those that nothing is called of, their latency.

    anatomy: of the quiet part of the curve.
    """
    unjudged = _as_rows(series, _unjudged_columns(curve))
    if is_busy(curve):
        return unjudged
    rows = _judged_rows(series, anatomy)
    if anatomy.aside is not None:
        rows += _as_rows(series, _aside_columns(anatomy.aside))
    rows += [row for row, is_aside in zip(unjudged, set_aside(anatomy, curve), strict=True) if is_aside]
    return sorted(rows, key=lambda row: int(row["n_gen"]))


def _unjudged_columns(curve: Curve) -> dict[str, list[Any]]:
    """Budgets that nothing is called of: their latencies, and that their state is unclear."""
    return _latency_columns(curve, summarise(curve)) | {
        "n_processes": np.maximum(curve.n_processes, 1).tolist(),
        "state": ["unclear"] * curve.n,
        "unstable": [False] * curve.n,
        "disturbed": curve.disturbed.tolist(),
    }


def _latency_columns(curve: Curve, summary: Summary) -> dict[str, list[Any]]:
    low, high = (np.exp(end) for end in centre_interval(summary))
    return {
        "n_gen": curve.budget.astype(int).tolist(),
        "n_requests": np.where(curve.censored, 0, summary.count).astype(int).tolist(),
        "latency_s": np.exp(summary.centre).tolist(),
        "low_s": _known(np.where(curve.censored, np.nan, low)),
        "high_s": _known(np.where(curve.censored, np.nan, high)),
        "lower_bound": curve.censored.tolist(),
    }


def _as_rows(series: str, columns: dict[str, list[Any]]) -> list[Row]:
    names = list(columns)
    return [{"series": series, **dict(zip(names, row, strict=True))} for row in zip(*columns.values(), strict=True)]


def _judged_rows(series: str, anatomy: Anatomy) -> list[Row]:
    curve, summary, expectation = anatomy.curve, anatomy.summary, anatomy.expectation
    columns = _latency_columns(curve, summary) | {
        "n_processes": processes_of(anatomy).tolist(),
        "p_slow": _known(anatomy.p_slow),
        "state": states_in_words(anatomy),
        "unstable": anatomy.unstable.tolist(),
        "disturbed": curve.disturbed.tolist(),
    }
    if anatomy.noticeable is not None:
        columns["noticed"] = _known(anatomy.noticeable.noticed)
        columns["called"] = _known(anatomy.noticeable.called)
    if expectation is not None:
        # 1.96: the trend's error is a sum of many small ones
        half = 1.96 * np.sqrt(expectation.variance)
        columns["expected_s"] = np.exp(expectation.log_latency).tolist()
        columns["expected_low_s"] = np.exp(expectation.log_latency - half).tolist()
        columns["expected_high_s"] = np.exp(expectation.log_latency + half).tolist()
        columns["slowdown"] = np.exp(summary.centre - expectation.log_latency).tolist()
    return _as_rows(series, columns)


def _aside_columns(aside: Aside) -> dict[str, list[Any]]:
    """The budgets that the verdict does not rest on, against what the others suggest."""
    beyond = summarise(aside.curve).centre - aside.expected
    return _unjudged_columns(aside.curve) | {
        "expected_s": _known(np.exp(aside.expected)),
        "slowdown": _known(np.exp(beyond)),
    }


def processes_of(anatomy: Anatomy) -> Indices:
    """Processes that say something of each budget: requests finished, or were stopped surely late. One at least,
    for a published table does not tell.
    """
    known = anatomy.expectation.log_latency + math.log(SLOW_FROM) if anatomy.expectation else anatomy.summary.centre
    return np.maximum(anatomy.curve.n_processes_beyond(known), 1)


def states_in_words(anatomy: Anatomy) -> list[str]:
    """normal, slow or unclear, for every budget."""
    surely_normal = (anatomy.p_slow <= SURELY_NORMAL) & ~anatomy.curve.censored
    words = np.where(surely_normal, "normal", "unclear").astype(object)
    for segment in anatomy.accepted:
        inside = np.arange(segment.first, segment.last + 1)
        words[inside[anatomy.p_slow[inside] >= SURELY_SLOW]] = "slow"
    for segment in anatomy.doubtful:
        words[segment.first : segment.last + 1] = "unclear"
    if anatomy.doubtful_end is not None:
        words[anatomy.doubtful_end.first : anatomy.doubtful_end.last + 1] = "unclear"
    words[anatomy.unstable] = "unclear"
    return [str(word) for word in words]


def _known(values: Array) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
