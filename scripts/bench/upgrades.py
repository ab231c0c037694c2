"""Two sessions of one simulated series: a stack against itself, or against one that is slower somewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bench.curves import GRIDS, Scenario, Simulated, simulate
from bench.families import QUIET
from bench.load import Load, at_rest, run_beside
from bench.scoring import generator
from bench.tables import rows_of
from speedbump.analyse.changes.compare import compare_places, compare_series_of
from speedbump.analyse.changes.contrast import UNKNOWN, Estimate, Side
from speedbump.analyse.changes.verdict import Verdict
from speedbump.analyse.curve import QUIET_SD, Array, Curve, Indices, from_repeats, read_curves
from speedbump.analyse.segments import dissect
from speedbump.grid.listing import visible
from speedbump.tables import REQUESTS, read_table

_SENTINEL_SD = 0.05
_OLD_STACK, _NEW_STACK = "linux-6_torch-2.9.0_transformers-5.0.0", "linux-6_torch-2.10.0_transformers-5.0.0"
FOUND = ("new", "slower", "moved", "gone", "faster")


@dataclass(frozen=True)
class Upgrade:
    """How to draw two sessions of a series.

    series: shape, noise, regimes; its process_sd, cold_share, drift and disturbed_cells act in each session anew.
    hot: the second session is slower by this, the fixed workload as well.  session_sd: of whole sessions, unseen by
    it.  throughout, somewhere: slow-down of the new stack, of every budget or of ``width`` neighbours.
    few: of the new stack only the budgets are measured that decide: both sides of each edge, one inside, three normal.
    flagged: disturbed cells are flagged.  processes: of every budget.
    """

    series: Scenario
    hot: float = 1.0
    session_sd: float = 0.0
    throughout: float = 1.0
    somewhere: float = 1.0
    width: int = 1
    few: bool = False
    flagged: bool = False
    processes: int = 1
    becomes: str = ""
    """What becomes of the regime: gone, moved (by two budgets), new, or worse (by half)."""


@dataclass
class Count:
    """Sums over pairs of sessions."""

    pairs: int = 0
    budgets: int = 0
    changed: int = 0
    unclear: int = 0
    found: int = 0
    cannot_tell: int = 0
    slower: int = 0
    right: int = 0

    def add(self, verdict: Verdict, right: str = "") -> None:
        """Count one pair. right: the word that would be right."""
        self.right += verdict.word == right
        self.pairs += 1
        self.budgets += len(verdict.budgets)
        self.changed += sum(word in ("slower", "faster") for word in verdict.budgets)
        self.unclear += verdict.budgets.count("unclear")
        self.found += verdict.word in FOUND
        self.slower += verdict.word in ("new", "slower")
        self.cannot_tell += verdict.word == "can't tell"

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Count one pair, given as its row of tables.SERIES_CHANGES."""
        self.pairs += 1
        self.budgets += row["n_budgets"]
        self.changed += row["n_slower"] + row["n_faster"]
        self.unclear += row["n_unclear"]
        self.found += row["verdict"] in FOUND
        self.slower += row["verdict"] in ("new", "slower")
        self.cannot_tell += row["verdict"] == "can't tell"

    def row(self) -> dict[str, float]:
        """Shares."""
        of_budgets, of_pairs = max(self.budgets, 1), max(self.pairs, 1)
        return {
            "pairs": self.pairs,
            "budgets_changed": self.changed / of_budgets,
            "budgets_unclear": self.unclear / of_budgets,
            "found": self.found / of_pairs,
            "cannot_tell": self.cannot_tell / of_pairs,
            "slower": self.slower / of_pairs,
            "right": self.right / of_pairs,
        }


def upgrades() -> dict[str, Upgrade]:
    """A stack against itself, by the kind of noise; the names seed the draws."""
    made: dict[str, Upgrade] = {}
    for n in (6, 12, 40):
        for sd in (0.02, 0.05, 0.15):
            for process in (0.0, 0.05, 0.10):
                made[f"noise/s{sd}/p{process}/n{n}"] = Upgrade(Scenario(n, sigma=sd, process_sd=process))
        usual = Scenario(n, process_sd=0.03)
        made[f"drift/30 % in each session/n{n}"] = Upgrade(replace(usual, drift=0.3))
        made[f"drift/hot 20 %/n{n}"] = Upgrade(usual, hot=1.2)
        made[f"drift/sessions 2 % apart/n{n}"] = Upgrade(usual, session_sd=0.02)
        made[f"drift/sessions 4 % apart/n{n}"] = Upgrade(usual, session_sd=0.04)
        made[f"odd/cold starts/n{n}"] = Upgrade(replace(usual, cold_share=0.05, cold_factor=1.5))
        made[f"odd/a disturbed cell/n{n}"] = Upgrade(replace(usual, disturbed_cells=1))
        made[f"odd/a disturbed cell, flagged/n{n}"] = Upgrade(replace(usual, disturbed_cells=1), flagged=True)
        made[f"odd/one request in ten disturbed/n{n}"] = Upgrade(replace(usual, outliers=0.1))
        made[f"odd/one repeat/n{n}"] = Upgrade(replace(usual, repeats=1))
        made[f"odd/two repeats/n{n}"] = Upgrade(replace(usual, repeats=2))
        width = 1 if n == 6 else 3
        for factor in (2, 5, 10):
            bumped = replace(usual, bumps=((factor, width, "mid"),))
            made[f"regime/{factor}x/n{n}"] = Upgrade(bumped)
            if n > 6:
                made[f"regime, few budgets/{factor}x/n{n}"] = Upgrade(bumped, few=True)
    return made


@dataclass(frozen=True)
class OneSided:
    """A stack against itself, or against one that takes ``throughout`` times as long, on a machine that did other work
    during one of the two sessions, ``side``.
    """

    series: Scenario
    load: Load
    side: str
    throughout: float = 1.0


def one_sided() -> dict[str, OneSided]:
    """Other work during one session; the names seed the draws. ``unseen``: only the fixed workload tells."""
    made: dict[str, OneSided] = {}
    for n in (10, 32):
        usual = replace(QUIET, n=n, process_sd=0.03)
        for side in ("old", "new"):
            for when in ("begins", "ends", "throughout"):
                for factor in (1.6, 3.0, 8.0):
                    made[f"busy/{side}/{when}/x{factor:g}/n{n}"] = OneSided(usual, Load(when, factor), side)
            unseen = Load("throughout", 3.0, counted=False)
            made[f"busy/{side}/throughout/unseen/n{n}"] = OneSided(usual, unseen, side)
        made[f"busy/new/throughout/x3, 1.5x slower/n{n}"] = OneSided(usual, Load("throughout", 3.0), "new", 1.5)
    return made


def compare_one_sided(name: str, upgrade: OneSided, k: int, seed: int = 0) -> Mapping[str, Any]:
    """The k-th pair's row of tables.SERIES_CHANGES, from the requests of both sessions."""
    rng = generator(name, k, seed)
    s = upgrade.series
    drawn = simulate(replace(s, process_sd=0.0), rng)
    sessions = []
    for stack, side in ((_OLD_STACK, "old"), (_NEW_STACK, "new")):
        slower = np.log(upgrade.throughout) if side == "new" else 0.0
        logs = [drawn.again(i, s.repeats, rng) + slower + rng.normal(0, s.process_sd) for i in range(s.n)]
        fixed = at_rest(s.n, rng)
        if side == upgrade.side:
            slowed, fixed = run_beside(upgrade.load, s.n, rng)
            logs = [values + by for values, by in zip(logs, slowed(s.repeats), strict=True)]
        curve = from_repeats(s.lengths, [np.exp(values) for values in logs])
        sessions.append(rows_of(curve, fixed, series=side, machine="simulated", stack=stack))
    return compare_places(pl.concat(sessions)).series.row(0, named=True)


NOISE = {"quiet": (0.02, 0.02), "usual": (0.05, 0.05)}
"""Standard deviations of requests, and of processes."""
FACTORS = (1.1, 1.15, 1.2, 1.3, 1.5, 2.0, 5.0, 10.0)


def powers() -> dict[str, Upgrade]:
    """Slow-downs: of every budget, of three neighbours, of one, and of one measured in two processes."""
    made: dict[str, Upgrade] = {}
    for kind in ("everywhere", "at three", "at one", "at one, two processes"):
        for noise, (sigma, process_sd) in NOISE.items():
            for n in (12, 40):
                for factor in FACTORS:
                    series = Scenario(n, sigma=sigma, process_sd=process_sd)
                    upgrade = Upgrade(series, width=3 if kind == "at three" else 1)
                    slower = {"throughout": factor} if kind == "everywhere" else {"somewhere": factor}
                    processes = 2 if "two processes" in kind else 1
                    made[f"slower/{kind}/{noise}/{n}/{factor:g}"] = replace(upgrade, processes=processes, **slower)
    return made


RIGHT = {"gone": "gone", "moved": "moved", "new": "new", "worse": "slower"}
"""The verdict that says what became of a regime."""


def moved_upgrades() -> dict[str, Upgrade]:
    """Regimes of three budgets that changed, all budgets of the new stack measured, or a few."""
    return {
        f"changed/{becomes}, {factor}x, {'few' if few else 'all'} budgets/n{n}": Upgrade(
            Scenario(n, process_sd=0.03, bumps=((factor, 3, "mid"),)), few=few, becomes=becomes
        )
        for becomes in RIGHT
        for factor in (2, 5, 10)
        for n in (12, 40)
        for few in (False, True)
    }


def compare_drawn(name: str, upgrade: Upgrade, k: int, seed: int = 0) -> Verdict:
    """The verdict on the k-th pair of sessions, one series by itself."""
    rng = generator(name, k, seed)
    s = upgrade.series
    drawn = simulate(replace(s, drift=0.0, process_sd=0.0, cold_share=0.0, disturbed_cells=0), rng)
    order = rng.permutation(s.n)
    slower = np.full(s.n, np.log(upgrade.throughout))
    first = int(rng.integers(0, s.n - upgrade.width + 1))
    slower[first : first + upgrade.width] += np.log(upgrade.somewhere)
    before, after = _regime_changes(drawn, upgrade)
    old = _session(drawn, upgrade, order, before, 1.0, rng)
    new = _session(drawn, upgrade, order, slower + after, upgrade.hot, rng, new=True)
    return compare_series_of({"old": old, "new": new}, [("old", "new")])[0][2]


def _regime_changes(drawn: Simulated, upgrade: Upgrade) -> tuple[Array, Array]:
    """What to add to the log latencies of the old and of the new session, so that the regime becomes what it should."""
    none = np.zeros(upgrade.series.n)
    if not upgrade.becomes:
        return none, none
    (_, last), factor = drawn.truth.regimes[0], np.log(upgrade.series.bumps[0][0])
    slow = np.where(drawn.truth.slow, factor, 0.0)
    if upgrade.becomes == "worse":
        return none, np.where(drawn.truth.slow, np.log(1.5), 0.0)
    if upgrade.becomes == "gone":
        return none, -slow
    if upgrade.becomes == "new":
        return -slow, none
    by = 2 if last + 2 < upgrade.series.n else -2
    return none, np.roll(slow, by) - slow


def _session(
    drawn: Simulated,
    upgrade: Upgrade,
    order: Indices,
    slower: Array,
    hot: float,
    rng: np.random.Generator,
    new: bool = False,
) -> Side:
    """One session: every budget in a process of its own."""
    s = upgrade.series
    offset = slower + (rng.random(s.n) < s.cold_share) * np.log(s.cold_factor)
    offset = offset + np.log1p(s.drift) * order / max(s.n - 1, 1) + rng.normal(0, upgrade.session_sd) + np.log(hot)
    disturbed = np.zeros(s.n, bool)
    for i in rng.choice(s.n, s.disturbed_cells, replace=False):
        offset[i] += np.log(rng.uniform(1.5, 4))
        disturbed[i] = upgrade.flagged
    kept = deciding(drawn, rng) if upgrade.few and new else np.arange(s.n)
    repeats = tuple(
        tuple(
            drawn.again(i, s.repeats, rng) + offset[i] + rng.normal(0, s.process_sd) for _ in range(upgrade.processes)
        )
        for i in kept
    )
    n = len(kept)
    stops = (np.empty(0),) * n
    curve = Curve(GRIDS[s.n][kept], repeats, np.full(n, np.nan), np.zeros(n, np.int64), stops, disturbed[kept])
    times = np.log(0.03 * hot) + rng.normal(0, _SENTINEL_SD, n)
    spread = max(float(np.std(times)), QUIET_SD / 2)
    return Side(dissect(curve), Estimate(float(np.median(times)), np.pi / 2 * spread**2 / n))


def deciding(drawn: Simulated, rng: np.random.Generator) -> Indices:
    """Both sides of each edge, one budget inside, and three normal ones."""
    slow = drawn.truth.slow
    chosen = {i for first, last in drawn.truth.regimes for i in (first - 1, first, (first + last) // 2, last, last + 1)}
    chosen = {i for i in chosen if 0 <= i < len(slow)}
    rest = [i for i in np.flatnonzero(~slow).tolist() if i not in chosen]
    chosen |= set(rng.choice(rest, min(3, len(rest)), replace=False).tolist())
    return np.array(sorted(chosen), np.int64)


def resampled(file: Path, k: int, seed: int = 0) -> list[Verdict]:
    """Two sessions of every recorded series of a file, made of its own processes.

    A process' departures from the trend are moved, whole, to other budgets, at random and anew for each session.
    """
    rng = generator(file.name, k, seed)
    verdicts = []
    for _, curve in read_curves(read_table(file, REQUESTS)):
        anatomy = dissect(curve)
        if anatomy.expectation is None:
            continue
        expected = anatomy.expectation.log_latency
        departures = [values - expected[i] for i in range(curve.n) for values in curve.repeats[i]]
        sides = {}
        for side in ("old", "new"):
            drawn = rng.integers(0, len(departures), curve.n)
            repeats = tuple((expected[i] + departures[d],) for i, d in enumerate(drawn))
            sides[side] = Side(dissect(replace(curve, repeats=repeats)), UNKNOWN)
        verdicts.append(compare_series_of(sides, [("old", "new")])[0][2])
    return verdicts


def recorded_files() -> list[Path]:
    """The recorded tables of the tests."""
    return visible(Path(__file__).parents[2] / "tests" / "recorded", "*.parquet")
