"""What the regime finder promises, and whether it keeps it: one line a promise, computed from scored scenarios."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

Row = dict[str, float | int | str | None]


@dataclass(frozen=True)
class Goal:
    """``pattern``: of the scenarios' names.  ``column``: of Score.row.  ``limit``: of the worst scenario;
    ``mean_limit``: of the mean over the scenarios; ``at_most``: ceilings, else floors.
    """

    name: str
    pattern: str
    column: str
    limit: float
    mean_limit: float | None = None
    at_most: bool = False

    def of(self, rows: list[Row]) -> "Kept | None":
        """How the goal stands; None when no scenario of it was scored."""
        known = [(float(r[self.column] or 0), str(r["scenario"])) for r in rows if self._is_of(r)]
        if not known:
            return None
        worst = max(known) if self.at_most else min(known)
        return Kept(math.fsum(value for value, _ in known) / len(known), *worst, len(known))

    def _is_of(self, row: Row) -> bool:
        return re.fullmatch(self.pattern, str(row["scenario"])) is not None and row.get(self.column) is not None

    def is_met(self, kept: "Kept") -> bool:
        """Whether worst and mean are within the limits."""
        beyond: Callable[[float, float], bool] = (lambda a, b: a > b) if self.at_most else (lambda a, b: a < b)
        mean_missed = self.mean_limit is not None and beyond(kept.mean, self.mean_limit)
        return not beyond(kept.worst, self.limit) and not mean_missed


@dataclass(frozen=True)
class Kept:
    """Mean over the scenarios, the worst of them, its name, and how many there are."""

    mean: float
    worst: float
    scenario: str
    n: int


SHAPES = "affine|quad|power|kink|tile|saw|plateau"
SMOOTH_AT_ONCE = (
    "null/(drift30|noise-grows|processes|two-repeats|ties|equal|flat)/.*|null/mix/n(3|4|5|600)/.*|null/out10/n600"
)
AFTERWARDS = "null/(cold-starts|disturbed-cell|one-repeat|cut-at-3)/.*"


def _none(name: str, pattern: str) -> Goal:
    """At most one false alarm in a hundred series."""
    return Goal(f"false alarms, {name}", pattern, "false_alarms", 0.01, None, True)


_FAMILY_GOALS = (
    Goal("false alarms, smooth curves of fresh kinds", "fresh/.*", "false_alarms", 0.01, 0.003, True),
    Goal("the same called undetermined", "fresh/.*", "undetermined", 0.12, 0.03, True),
    _none("smooth, each length 1.25 or 2 times the one before", "geometric/null/.*"),
    Goal("the same called undetermined, 1.25 times", r"geometric/null/.*/x1\.25/.*", "undetermined", 0.12, 0.03, True),
    Goal("found or undetermined: 5x at one of them", "geometric/bump/F5/.*", "noticed", 0.99),
    Goal("found or undetermined: 2x at one of them", "geometric/bump/F2/.*", "noticed", 0.90),
    _none("smooth, one answer behind growing contexts", "behind/null/.*"),
    Goal("the same called undetermined", "behind/null/.*", "undetermined", 0.12, 0.03, True),
    Goal("found: 2x and more behind growing contexts", "behind/bump/.*", "found", 0.99),
    _none("one request a length, also where 3 % of them are disturbed", "single/(null|odd)/.*"),
    Goal("smooth called undetermined, one request a length", "single/null/.*", "undetermined", 0.12, 0.03, True),
    Goal("found or undetermined: 2x at one length, one request each", "single/spike/.*", "noticed", 0.95),
    Goal("called a step and bracketed: 5x and more, up and down", "steps/.*/F(5|9)/.*", "right", 0.98),
    Goal("called a step and bracketed: 2x, even lengths", "steps/.*/F2/.*/even/.*", "right", 0.90),
    Goal("called a step or undetermined: 2x", "steps/.*/F2/.*", "told", 0.99),
    Goal("steps called a regime", "steps/.*", "false_alarms", 0.01, None, True),
    Goal("called a rate change: 2x and more", "rate/F(2|5)/.*", "right", 0.95),
    Goal("called a rate change: 1.5x, 1 % noise", r"rate/F1\.5/.*/s0\.01", "right", 0.80),
    Goal("rate changes called a regime or a step", "rate/F.*", "false_alarms", 0.01, None, True),
    _none("quadratic curves, power laws, rates up by 1.3", "rate/null/.*"),
    Goal("called undetermined: every second length, or pair of them, 2x", "periodic/F2/.*", "right", 0.98),
    Goal("the same, 1.5x", r"periodic/F1\.5/.*", "right", 0.90),
    Goal("regimes in such patterns", "periodic/F.*", "false_alarms", 0.01, None, True),
    _none("tiles of up to 1.25", "periodic/null/.*"),
    Goal("the same called undetermined", "periodic/null/.*", "undetermined", 0.12, None, True),
    _none("one length far too fast", "fast/null/.*"),
    Goal("found: 5x beside a length far too fast", "fast/bump/.*", "found", 0.98),
    Goal("called undetermined: the largest lengths stopped too early", "stopped/.*", "right", 0.99),
    _none("the machine busy from some moment on, until one, for a while, or throughout", "load/.*"),
    Goal("called undetermined: the machine busy throughout", "load/throughout/.*", "right", 0.99),
    Goal("found or undetermined: 10x on a machine that gets busy", "load/.*/bump/.*", "noticed", 0.98),
)

GOALS = (
    Goal(
        "false alarms, smooth, 5 repeats, up to 15 % noise",
        f"null/({SHAPES})/n\\d+/s.*",
        "false_alarms",
        0.01,
        0.003,
        True,
    ),
    Goal("the same called undetermined", f"null/({SHAPES})/n\\d+/s.*", "undetermined", 0.12, 0.03, True),
    Goal("false alarms, 3 repeats", r"null/mix/.*/r3", "false_alarms", 0.01, None, True),
    Goal("false alarms, 10 repeats", r"null/mix/.*/r10", "false_alarms", 0.01, None, True),
    Goal("false alarms, one repeat in ten disturbed", r"null/out10/n\d+/s.*", "false_alarms", 0.01, None, True),
    Goal(
        "false alarms, harder: drift, growing noise, process offsets, two repeats, ties, flat, 3 to 5 and 600 budgets",
        SMOOTH_AT_ONCE,
        "false_alarms",
        0.01,
        None,
        True,
    ),
    Goal(
        "false alarms after confirmation: cold starts, one disturbed cell, one repeat, stopped requests",
        AFTERWARDS,
        "false_alarms",
        0.01,
        None,
        True,
    ),
    Goal("found: 2x and more, closed, up to 5 % noise", r"bump/F(2|5|10|21)/w\d/mid/n\d+/s0\.0[25]", "found", 0.99),
    Goal("found: 2x, one budget, closed, 15 % noise, one process", r"bump/F2/w1/mid/n\d+/s0\.15", "found", 0.94),
    Goal("the same after the automatic repeat", r"confirmed/F2/w1/mid/.*", "found", 0.98),
    Goal("found: 2x from one repeat, after the automatic repeat", r"one-repeat/F2/.*", "found", 0.80),
    Goal("found: 5x and more, closed", r"bump/F(5|10|21)/w\d/mid/n(6|12|40)/.*", "found", 1.0),
    Goal("exact edges: 5x and more, closed", r"bump/F(5|10|21)/w\d/mid/n(6|12|40)/.*", "exact", 0.985, 0.99),
    Goal(
        "found or undetermined: 2x at an edge of six budgets",
        r"(bump/F2/w\d|quad/F2/w1)/edge/n6.*",
        "noticed",
        0.88,
        0.90,
    ),
    Goal("found: 2x step for good", r"step/F2/.*", "found", 0.95),
    Goal(
        "95 % interval covers, 2x and more",
        r"(bump|reps|quad|step|two|levels|rough|out10)/(F(2|5|10|21)|F3\+12)/.*",
        "covered",
        0.92,
        0.95,
    ),
    Goal(
        "slow-down error, closed, median", r"bump/F(2|5|10|21)/w\d/mid/n(6|12|40)/.*", "error_median", 0.10, 0.037, True
    ),
    Goal(
        "slow-down error, closed, 95th percentile",
        r"bump/F(2|5|10|21)/w\d/mid/n(6|12|40)/.*",
        "error_p95",
        0.25,
        0.12,
        True,
    ),
    Goal("told: repeats in both states, 5x and 10x", r"bimodal/F(5|10)/.*", "unstable_seen", 0.55, 0.75),
    Goal("regimes made of stopped requests, after confirmation", r"cut/.*", "found", 0.97),
    Goal("milliseconds of one core, series of up to 40 budgets", r"(null|bump)/.*/n(6|12|40)/.*", "ms", 20, None, True),
    *_FAMILY_GOALS,
)
