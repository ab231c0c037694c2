"""Which mechanism the analysis names on machines that are slow for a known reason."""

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from bench.mechanisms.study import machine_of, simulate_study
from bench.mechanisms.world import draw_world
from speedbump.analyse.mechanism.judge import sights
from speedbump.analyse.mechanism.observations import observe
from speedbump.analyse.mechanism.rules import CANNOT_TELL, NOTHING, judge, named
from speedbump.analyse.regimes import find_regimes

TRUTHS: dict[str, tuple[str, str]] = {
    "nothing": ("", "nothing to explain"),
    "allocator pool": ("pool", "H1"),
    "pool, purged at the watermark": ("pool purge", "H1 H1b"),
    "a graph for every shape": ("graphs", "H2"),
    "swap, outside the pool": ("swap", "H3"),
    "residency": ("residency", "H4"),
    "clock": ("clock", "H5"),
    "kernel by shape": ("shape", "H6"),
    "previous process": ("leftover", "H7"),
}
"""Simulated machines by name: the mechanisms that work in them, and what the analysis should name."""

MIXTURES: dict[str, tuple[str, str]] = {
    "pool and clock": ("pool clock", "H1 H5"),
    "pool and kernel": ("pool shape", "H1 H6"),
    "pool and residency": ("pool residency", "H1 H4"),
    "pool and graphs": ("pool graphs", "H1 H2"),
    "swap and clock": ("swap clock", "H3 H5"),
    "swap and residency": ("swap residency", "H3 H4"),
    "residency and clock": ("residency clock", "H4 H5"),
    "clock and kernel": ("clock shape", "H5 H6"),
}
"""Two at once: both may be named, or none."""


@dataclass(frozen=True)
class Named:
    """What the analysis says of one simulated machine. words: the hypotheses it names, or why none.
    contradicted: the hypotheses it rules out.
    """

    words: str
    contradicted: frozenset[str]


def name_mechanism(truth: str, run: int) -> Named:
    """The answer on the run-th machine of that name; always the same machine for a name and a number."""
    active, _ = (TRUTHS | MIXTURES)[truth]
    rng = np.random.default_rng([zlib.crc32(truth.encode()), run])
    world = draw_world(frozenset(active.split()), rng)
    requests, samples = simulate_study(world, machine_of("mechanism", world), rng)
    found = find_regimes(requests, notice=False)
    (sight,) = sights(requests, samples, found.series, found.budgets, found.regimes)
    verdicts = judge(observe(sight))
    names = named(verdicts)
    nothing = all(verdict.verdict == NOTHING for verdict in verdicts)
    out = frozenset(v.hypothesis for v in verdicts if v.verdict == "contradicted")
    return Named(" ".join(names) or ("nothing to explain" if nothing else CANNOT_TELL), out)


@dataclass(frozen=True)
class Row:
    """How often each answer was given to one truth. wrong_out: how often a true hypothesis was ruled out."""

    truth: str
    expected: str
    counts: Mapping[str, int]
    wrong_out: int

    @property
    def runs(self) -> int:
        return sum(self.counts.values())

    @property
    def right(self) -> float:
        """Share of the runs with the expected answer."""
        return self.counts.get(self.expected, 0) / self.runs

    @property
    def misleading(self) -> int:
        """Runs in which a hypothesis was named that is not true, or of two true ones one alone."""
        true = set(self.expected.split())
        allowed = {self.expected, CANNOT_TELL}
        if self.truth in TRUTHS:
            allowed |= {name for name in self.counts if set(name.split()) < true}
        return sum(count for name, count in self.counts.items() if name not in allowed)


def tally(truth: str, answers: Iterable[Named]) -> Row:
    """One row from the answers to one truth."""
    answers = list(answers)
    expected = (TRUTHS | MIXTURES)[truth][1]
    true = set(expected.split())
    return Row(
        truth,
        expected,
        Counter(answer.words for answer in answers),
        sum(bool(true & answer.contradicted) for answer in answers),
    )


def render(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table: truth, what should be named, answers."""
    rows = list(rows)
    lines = [
        "| simulated machine | expected | runs | named right | misleading | truth ruled out | answers |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        answers = ", ".join(f"{_plus(name)} {n}" for name, n in sorted(row.counts.items(), key=lambda kv: -kv[1]))
        expected = _plus(row.expected) if row.truth in TRUTHS else f"{_plus(row.expected)}, or can't tell"
        right = 100 * (row.right if row.truth in TRUTHS else 1 - row.misleading / row.runs)
        numbers = f"{row.runs} | {right:.1f} % | {row.misleading} | {row.wrong_out}"
        lines.append(f"| {row.truth} | {expected} | {numbers} | {answers} |")
    return "\n".join(lines) + "\n"


def _plus(name: str) -> str:
    return name if name in (CANNOT_TELL, "nothing to explain") else " + ".join(name.split())
