"""How well a method does on a scenario."""

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from bench.answers import Answer, answer
from bench.curves import RATE, STEP, Scenario, Simulated, Truth, simulate
from bench.refinement import answer_after_confirmation
from bench.tables import answers_of, requests_of
from speedbump.analyse.curve import Curve

Method = Callable[[Curve], Answer]


@dataclass
class Score:
    """Sums over the series of a scenario."""

    series: int = 0
    regimes: int = 0
    found: int = 0
    exact: int = 0
    noticed: int = 0
    false_alarms: int = 0
    undetermined: int = 0
    right: int = 0
    told: int = 0
    unstable_seen: int = 0
    errors: list[float] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, answer: Answer, truth: Truth, seconds: float = 0.0, right: frozenset[str] = frozenset()) -> None:
        """Count one series. Found: at least half of the regime's budgets. Noticed: at least one of its budgets
        is in a regime, or the verdict is undetermined. False alarm: a regime that shares no budget with a
        true one, a step or a changed rate where nothing of the kind is. Right: one of the verdicts ``right``, and
        a step is between the lengths where it is put, which are neighbours but for one. Told: right or
        undetermined. Error and coverage of the
        slow-down: where the budgets are exact.
        """
        self.series += 1
        is_right = answer.verdict in right and (truth.step is None or _brackets(answer.step, truth.step))
        self.right += is_right
        self.regimes += len(truth.regimes)
        self.seconds += seconds
        undetermined = answer.verdict == "undetermined"
        self.undetermined += undetermined
        self.told += is_right or undetermined
        touched: set[int] = set()
        for (first, last), slowdown in zip(truth.regimes, truth.slowdowns, strict=True):
            shared = [min(last, b) - max(first, a) + 1 for a, b in answer.regimes]
            touched |= {k for k, overlap in enumerate(shared) if overlap > 0}
            hits = [k for k, overlap in enumerate(shared) if overlap >= max(0.5 * (last - first + 1), 1)]
            self.noticed += any(overlap > 0 for overlap in shared) or undetermined
            if not hits:
                continue
            self.found += 1
            hit = max(hits, key=lambda k: answer.regimes[k][1] - answer.regimes[k][0])
            if answer.regimes[hit] == (first, last):
                self.exact += 1
                value, low, high = answer.slowdowns[hit]
                if not math.isnan(low):
                    self.errors.append(abs(math.log(value / slowdown)))
                    self.covered.append(low <= slowdown and (math.isnan(high) or slowdown <= high))
        self.false_alarms += any(k not in touched for k in range(len(answer.regimes))) or _in_vain(answer, truth)
        if truth.unstable is not None:
            self.unstable_seen += truth.unstable in answer.unstable or any(
                a <= truth.unstable <= b for a, b in answer.regimes
            )

    def row(self) -> dict[str, float | int | None]:
        """Shares and quantiles."""
        of_regimes = max(self.regimes, 1)
        some = self.regimes > 0
        return {
            "series": self.series,
            "found": self.found / of_regimes if some else None,
            "exact": self.exact / of_regimes if some else None,
            "noticed": self.noticed / of_regimes if some else None,
            "false_alarms": self.false_alarms / self.series,
            "undetermined": self.undetermined / self.series,
            "right": self.right / self.series,
            "told": self.told / self.series,
            "unstable_seen": self.unstable_seen / self.series,
            "error_median": float(np.median(self.errors)) if self.errors else None,
            "error_p95": float(np.quantile(self.errors, 0.95)) if self.errors else None,
            "covered": float(np.mean(self.covered)) if self.covered else None,
            "ms": 1000 * self.seconds / self.series,
        }


def _in_vain(answer: Answer, truth: Truth) -> bool:
    """A step, or a changed rate, where the truth holds nothing that could be taken for one."""
    if truth.regimes or truth.step is not None:
        return False
    return answer.verdict in STEP or (answer.verdict in RATE and not truth.bends)


def _brackets(told: tuple[int, int] | None, step: int) -> bool:
    return told is not None and told[0] < step <= told[1] and told[1] - told[0] <= 2


def generator(name: str, k: int, seed: int) -> np.random.Generator:
    """Of the k-th series of a scenario."""
    return np.random.default_rng([zlib.crc32(name.encode()), k, *([seed] if seed else [])])


def draw(name: str, scenario: Scenario, k: int, seed: int = 0) -> Simulated:
    """The k-th series of a scenario; always the same for a name and a seed."""
    return simulate(scenario, generator(name, k, seed))


def score(name: str, scenario: Scenario, n_series: int, method: Method = answer, seed: int = 0) -> Score:
    """Score a method on the first ``n_series`` series of a scenario."""
    total = Score()
    for k in range(n_series):
        drawn = draw(name, scenario, k, seed)
        start = time.process_time()
        found = method(drawn.curve)
        total.add(found, drawn.truth, time.process_time() - start, scenario.right)
    return total


def score_after_confirmation(name: str, scenario: Scenario, n_series: int, seed: int = 0) -> Score:
    """The same for the regime finder once what it asks for was measured."""
    total = Score()
    for k in range(n_series):
        drawn = draw(name, scenario, k, seed)
        rng = np.random.default_rng([k, 1, *([seed] if seed else [])])
        total.add(answer_after_confirmation(drawn, scenario, rng), drawn.truth, right=scenario.right)
    return total


def score_tables(name: str, scenario: Scenario, n_series: int, seed: int = 0) -> Score:
    """The same from the requests that the pipeline would collect, with the fixed workload around each cell."""
    total = Score()
    drawn = [draw(name, scenario, k, seed) for k in range(n_series)]
    requests = pl.concat(
        requests_of(one, scenario, k, np.random.default_rng([k, 2, seed])) for k, one in enumerate(drawn)
    )
    start = time.process_time()
    answers = answers_of(requests, drawn)
    seconds = (time.process_time() - start) / n_series
    for one, found in zip(drawn, answers, strict=True):
        total.add(found, one.truth, seconds, scenario.right)
    return total
