"""The tables of changes: from requests to what every stack changed against every other."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from speedbump.analyse.changes.busyness import why_busier, with_common_best
from speedbump.analyse.changes.contrast import UNKNOWN, Contrast, Estimate, Side, contrast
from speedbump.analyse.changes.extents import States, own_states, speaks_for_itself, states_against_old
from speedbump.analyse.changes.matching import RegimeChange, pair_regimes
from speedbump.analyse.changes.places import SERIES_AXES, Place, pair_places, pair_series
from speedbump.analyse.changes.verdict import Tested, Verdict, holm, judge_change, limits, p_values
from speedbump.analyse.curve import QUIET_SD, Array, read_curves, without_profiles
from speedbump.analyse.segments import dissect
from speedbump.analyse.sentinels import with_disturbances
from speedbump.analyse.tokens import common_tokens
from speedbump.tables import BUDGET_CHANGES, BUSIER, REGIME_CHANGES, SERIES_CHANGES, Table

Row = dict[str, Any]


@dataclass(frozen=True)
class Changes:
    """Three tables: tables.SERIES_CHANGES, tables.REGIME_CHANGES, tables.BUDGET_CHANGES."""

    series: pl.DataFrame
    regimes: pl.DataFrame
    budgets: pl.DataFrame


def compare_places(requests: pl.DataFrame) -> Changes:
    """What every two stacks of a machine, and every two machines, differ in; requests: tables.REQUESTS.

    Each two places are one comparison, whose tests are corrected for together (see verdict.holm).
    """
    requests = without_profiles(requests)
    identities = requests.select("series", "machine", "stack", *SERIES_AXES).unique("series", maintain_order=True)
    pairs = [(old, new, own) for old, new in pair_places(identities) if (own := pair_series(identities, old, new))]
    if not pairs:
        return Changes(*(table.schema.to_frame() for table in (SERIES_CHANGES, REGIME_CHANGES, BUDGET_CHANGES)))
    told = with_disturbances(requests)
    sentinels = [_sentinels(told, name) for name in ("sentinel", "host_sentinel")]
    sides = {
        name: Side(dissect(curve), *(middle.get(name, UNKNOWN) for middle in sentinels))
        for name, curve in read_curves(requests)
    }
    tokens = {
        (series, n): hash_ for series, n, hash_ in common_tokens(requests).select("series", "n_gen", "tokens").rows()
    }
    series, regimes, budgets = [], [], []
    for old, new, own in pairs:
        for names, tested, verdict, n_tests in compare_series_of(sides, own, same_machine=old[0] == new[0]):
            series.append(_series_row(names, old, new, tested, verdict, n_tests))
            between = tested.between if tested else None
            if tested and between:
                regimes += [_regime_row(names, regime, between) for regime in verdict.regimes]
                budgets += _budget_rows(names, tested, verdict, tokens)
    return Changes(_frame(series, SERIES_CHANGES), _frame(regimes, REGIME_CHANGES), _frame(budgets, BUDGET_CHANGES))


Compared = tuple[tuple[str, str], Tested | None, Verdict, int]


def compare_series_of(
    sides: dict[str, Side], pairs: Iterable[tuple[str, str]], same_machine: bool = True
) -> list[Compared]:
    """Series of two places, corrected for together; a pair of which one side has no latency gets no tests.

    Between two machines the fixed workload says how fast they are, not how they fared, and is not looked at.
    """
    pairs = list(pairs)
    drafts: list[Tested | None] = []
    for old, new in pairs:
        if old not in sides or new not in sides:
            drafts.append(None)
        elif same_machine:
            drafts.append(_test(*with_common_best(sides[old], sides[new]), same_machine))
        else:
            drafts.append(_test(Side(sides[old].anatomy), Side(sides[new].anatomy), same_machine))
    p = [p_values(draft.between, draft.pairings) if draft else np.empty(0) for draft in drafts]
    adjusted = np.split(holm(np.concatenate([np.empty(0), *p])), np.cumsum([len(own) for own in p])[:-1])
    n_tests = max(sum(len(own) for own in p), 1)
    compared: list[Compared] = []
    for names, draft, own in zip(pairs, drafts, adjusted, strict=True):
        if draft is None:
            unmeasured = Verdict("can't tell", "one of the two was not measured", None, [], "unchanged", [])
            compared.append((names, None, unmeasured, n_tests))
            continue
        tested = Tested(draft.between, draft.old, draft.new, draft.pairings, own)
        compared.append((names, tested, judge_change(tested, n_tests), n_tests))
    return compared


def _test(old: Side, new: Side, same_machine: bool) -> Tested:
    """Everything before the correction for many tests."""
    between = contrast(old, new, new.anatomy.slow)
    if speaks_for_itself(old.anatomy, new.anatomy):
        states = own_states(new.anatomy)
    else:
        slow = np.isin(new.anatomy.curve.budget, _slow(states_against_old(old, new, between)))
        between = contrast(old, new, slow)
        states = states_against_old(old, new, between)
    between = replace(between, busier=why_busier(old, new, same_machine))
    before = own_states(old.anatomy)
    return Tested(between, before, states, pair_regimes(before, states, between), np.empty(0))


def _slow(states: States) -> Array:
    return np.asarray(states.budget[[word == "slow" for word in states.word]])


def _sentinels(requests: pl.DataFrame, name: str) -> dict[str, Estimate]:
    """Of every series, the middle of the log times of a fixed workload around its undisturbed processes, or around all
    where none was undisturbed, and its variance.

    Only the device's is taken off what changed: the host's is made of torch's own dispatching, which an upgrade may
    really have slowed down.
    """
    around = pl.mean_horizontal(pl.col(f"{name}_before_s").log(), pl.col(f"{name}_after_s").log())
    each = requests.with_columns(around.alias("log_s")).drop_nulls("log_s").unique(["series", "cell"])
    found = {}
    for (series,), every in each.group_by("series"):
        own = quiet if not (quiet := every.filter(~pl.col("is_disturbed"))).is_empty() else every
        times = own["log_s"].to_numpy()
        middle = float(np.median(times))
        spread = max(1.4826 * float(np.median(np.abs(times - middle))), QUIET_SD / 2)
        found[str(series)] = Estimate(middle, math.pi / 2 * spread**2 / len(times))
    return found


def _frame(rows: list[Row], table: Table) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=table.schema, orient="row")


def _series_row(
    names: tuple[str, str], old: Place, new: Place, tested: Tested | None, verdict: Verdict, n_tests: int
) -> Row:
    row: Row = {
        "old": names[0],
        "new": names[1],
        "old_machine": old[0],
        "old_stack": old[1],
        "new_machine": new[0],
        "new_stack": new[1],
        "verdict": verdict.word,
        "sentence": verdict.sentence,
        "next": verdict.next,
        "trend": verdict.trend,
        "n_budgets": 0,
    }
    if tested is None:
        return row
    between = tested.between
    limit_shift, limit_budget = limits(between, n_tests)
    return row | {
        "n_budgets": len(between.budget),
        "n_slower": verdict.budgets.count("slower"),
        "n_faster": verdict.budgets.count("faster"),
        "n_unclear": verdict.budgets.count("unclear"),
        **_interval("shift", between.shift, between),
        "drift": math.exp(between.drift.value),
        "shift_detectable": _number(limit_shift),
        "detectable": _number(limit_budget),
        "doubt": BUSIER if between.busier else None,
    }


def _interval(name: str, estimate: Estimate, between: Contrast) -> Row:
    if math.isnan(estimate.value):
        return {}
    half = float(between.half(estimate.variance))
    ends = {"": estimate.value, "_low": estimate.value - half, "_high": estimate.value + half}
    return {f"{name}{end}": math.exp(value) for end, value in ends.items()}


def _regime_row(names: tuple[str, str], regime: RegimeChange, between: Contrast) -> Row:
    row: Row = {"old": names[0], "new": names[1], "change": regime.word, "reason": regime.why}
    for side, extent in (("old", regime.pairing.old), ("new", regime.pairing.new)):
        if extent is not None:
            row |= {
                f"{side}_before": extent.before,
                f"{side}_first": extent.first,
                f"{side}_last": extent.last,
                f"{side}_after": extent.after,
                f"{side}_slowdown": extent.slowdown,
            }
    for edge, move in (("onset", regime.onset), ("recovery", regime.recovery)):
        if move is not None:
            row |= {f"{edge}_moved_low": move[0], f"{edge}_moved_high": move[1]}
    confirmed = [extent.confirmed for extent in (regime.pairing.old, regime.pairing.new) if extent is not None]
    return row | {"confirmed": all(confirmed)} | _interval("factor", regime.pairing.factor, between)


def _budget_rows(
    names: tuple[str, str], tested: Tested, verdict: Verdict, tokens: dict[tuple[str, int], str | None]
) -> list[Row]:
    between = tested.between
    half = between.half(between.variance)
    rows = []
    for k, budget in enumerate(between.budget):
        hashes = [tokens.get((name, int(budget))) for name in names]
        value, bound = float(between.log_ratio[k]), int(between.bound[k])
        rows.append(
            {
                "old": names[0],
                "new": names[1],
                "n_gen": int(budget),
                "ratio": math.exp(value),
                "low": math.exp(value - half[k]) if bound in (0, 1) else None,
                "high": math.exp(value + half[k]) if bound in (0, -1) else None,
                "bound": {1: "at least", -1: "at most", 2: "unknown"}.get(bound),
                "p": float(tested.adjusted[k]),
                "change": verdict.budgets[k],
                "old_state": tested.old.at(budget),
                "new_state": tested.new.at(budget),
                "disturbed": bool(between.disturbed[k]),
                "same_tokens": None if None in hashes else hashes[0] == hashes[1],
            }
        )
    return rows


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
