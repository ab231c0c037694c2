"""Which runs there are, which failed and why."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import polars as pl

from speedbump.grid.swap import NOTICED_BYTES
from speedbump.report.curves import Curve
from speedbump.report.study import Study
from speedbump.report.words import lengths, listing, plural, prose
from speedbump.tables import STATUSES

GRID_LENGTHS = 12
"""More lengths than these do not fit side by side; they are listed by stretches instead."""
MOST_REASONS = 200
OWN_SWAP = "needed more memory than was free: its own processes made the machine swap"


@dataclass(frozen=True)
class Coverage:
    """finding: the title.  lengths and grid: a word a curve and length, when few.  stretches: otherwise.

    reasons: (curve, lengths, what, message) of runs that are not ok, disturbed, or swapped.
    faults: (file, problem, message).
    """

    finding: str
    lengths: tuple[int, ...]
    grid: tuple[tuple[Curve, tuple[str, ...]], ...]
    stretches: tuple[tuple[Curve, tuple[tuple[str, str], ...]], ...]
    reasons: tuple[tuple[str, str, str, str], ...]
    more_reasons: int
    faults: tuple[tuple[str, str, str], ...]


def coverage(study: Study) -> Coverage:
    """What the study's cells came to."""
    every = sorted(set(study.cells["n_gen"].drop_nulls().to_list()) | set(study.budgets["n_gen"].to_list()))
    words = {curve.key: _words(curve, study.cells) for curve in study.curves}
    few = len(every) <= GRID_LENGTHS
    reasons = _reasons(study)
    return Coverage(
        finding=coverage_finding(study),
        lengths=tuple(every) if few else (),
        grid=tuple((c, tuple(words[c.key].get(n, "none") for n in every)) for c in study.curves) if few else (),
        stretches=() if few else tuple((curve, _stretches(words[curve.key])) for curve in study.curves),
        reasons=tuple(reasons[:MOST_REASONS]),
        more_reasons=max(0, len(reasons) - MOST_REASONS),
        faults=tuple(study.faults.select("file", "problem", "message").iter_rows()),
    )


def coverage_finding(study: Study) -> str:
    """``68 of 76 runs finished; 6 failed and 2 were stopped``."""
    outcomes = Counter(study.cells["outcome"].to_list())
    left = study.progress.left + int(study.faults["cell"].is_not_null().sum())
    total = study.cells.height + left
    if not total:
        return "No run is planned or measured"
    ok, stopped, beyond = (outcomes.pop(outcome, 0) for outcome in ("ok", "stopped", "beyond_memory"))
    failed = sum(outcomes.values())
    rest = [f"{failed:,} failed"] if failed else []
    rest += [f"{stopped:,} {'was' if stopped == 1 else 'were'} stopped"] if stopped else []
    rest += [f"{beyond:,} {'was' if beyond == 1 else 'were'} not started"] if beyond else []
    rest += [f"{left:,} {'is' if left == 1 else 'are'} not there"] if left else []
    if not rest:
        return f"All {plural(total, 'run')} finished" if total > 1 else "The run finished"
    return f"{ok:,} of {plural(total, 'run')} finished; {listing(rest)}"


def _words(curve: Curve, cells: pl.DataFrame) -> dict[int, str]:
    """A word for each length: the state found there, or that its runs failed."""
    mine = cells.filter((pl.col("series") == curve.series) & pl.col("n_gen").is_not_null())
    words = dict.fromkeys(mine["n_gen"].to_list(), "failed")
    words |= dict.fromkeys(mine.filter(outcome="beyond_memory")["n_gen"].to_list(), "not started")
    for n, state, bound in curve.budgets.select("n_gen", "state", "lower_bound").iter_rows():
        words[n] = "stopped" if bound else state
    return dict(sorted(words.items()))


def _stretches(words: dict[int, str]) -> tuple[tuple[str, str], ...]:
    stretches = []
    for word, group in groupby(words.items(), key=lambda item: item[1]):
        stretches.append((word, _counted([n for n, _ in group])))
    return tuple(stretches)


def _reasons(study: Study) -> list[tuple[str, str, str, str]]:
    names = {curve.series: curve.name for curve in study.curves}
    found: dict[tuple[str, str, str], list[int]] = {}
    cells = study.cells.sort("series", "n_gen", "process")
    columns = ("series", "n_gen", "outcome", "message", "disturbed", "own_swap_bytes")
    for series, n_gen, outcome, message, disturbed, own_swap in cells.select(columns).iter_rows():
        what = [(prose(STATUSES.get(outcome, outcome)), message or "")] if outcome != "ok" else []
        what += [("disturbed, but kept", disturbed)] if disturbed else []
        what += [(OWN_SWAP, "a result of this length, no disturbance")] if (own_swap or 0) > NOTICED_BYTES else []
        for reason in what:
            inside = found.setdefault((series, *reason), [])
            inside += [n_gen] if n_gen is not None else []
    return [
        (names.get(series, series), _counted(sorted(set(inside))), what, message)
        for (series, what, message), inside in found.items()
    ]


def _counted(inside: list[int]) -> str:
    """``128–768 (6)``: the ends, and how many where that is not plain."""
    if not inside:
        return "all"
    return lengths(inside[0], inside[-1]) + (f" ({len(inside)})" if len(inside) > 1 else "")


def outcomes(study: Study) -> Sequence[tuple[str, int]]:
    """How many runs came to what, for the summary."""
    return sorted(Counter(study.cells["outcome"].to_list()).items())
