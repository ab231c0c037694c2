"""What a study has found: its curves and their slow regimes, and the budgets that decide whether one is still there."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from speedbump.grid.study import StudyError

N_NORMAL = 4
"""Normal budgets among those that decide: two at either side of a regime."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True)


class KnownRegime(_Read):
    """A slow regime. Budgets in tokens, all of them measured.

    onset: the last normal and the first slow budget; onset_low None where it began at the first budget measured.
    recovery: the last slow and the first normal one; recovery_high None where it was not seen to end.
    slowdown: against the normal trend.  worst_n_gen: the budget with the largest slow-down.
    """

    accepted: bool
    confirmed: bool
    onset_low: int | None
    onset_high: int
    recovery_low: int
    recovery_high: int | None
    slowdown: float
    worst_n_gen: int

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """(last normal, first slow) and (last slow, first normal) budget, of the ends that were seen."""
        pairs = ((self.onset_low, self.onset_high), (self.recovery_low, self.recovery_high))
        return tuple((low, high) for low, high in pairs if low is not None and high is not None)

    def holds(self, n_gen: int) -> bool:
        """Whether the budget may be slow: anything between the normal budgets at its ends."""
        after_onset = self.onset_low is None or n_gen > self.onset_low
        return after_onset and (self.recovery_high is None or n_gen < self.recovery_high)


class _Lengths(_Read):
    n_gen_min: int | None
    n_gen_max: int | None


class KnownSeries(_Read):
    """A series as its study's report has it; ``axes`` are those of the series, defaults included."""

    series: str
    name: str
    machine: str
    stack: str
    axes: dict[str, Any]
    verdict: str
    lengths_measured: _Lengths
    every_regime: tuple[KnownRegime, ...] = Field(alias="regimes")

    @property
    def regimes(self) -> tuple[KnownRegime, ...]:
        """The accepted ones: for others the evidence was too weak."""
        return tuple(regime for regime in self.every_regime if regime.accepted)


class _Summary(_Read):
    curves: tuple[KnownSeries, ...]


def read_known(folder: Path) -> tuple[KnownSeries, ...]:
    """The series of a study whose report is built. ``folder``: the study's, such as ``results/studies/scan``.

    Raises StudyError.
    """
    file = folder / "site" / "summary.json"
    try:
        return _Summary.model_validate(json.loads(file.read_text(encoding="utf-8"))).curves
    except OSError:
        raise StudyError(f"{file} is missing: run the study {folder.name} first, or build its report") from None
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise StudyError(f"{file}: {place} is not as the report writes it: build the report again") from None
    except ValueError:
        raise StudyError(f"{file} is no JSON: build the report again") from None


def deciding_budgets(
    regimes: Iterable[KnownRegime], budgets: Iterable[int], n_normal: int = N_NORMAL, n_inside: int = 1
) -> list[int]:
    """The budgets that decide whether the regimes of one series are where they were, in order.

    Both sides of each edge as it was measured, the inside (its worst budget first), and normal budgets, half of them
    below the regime and half above where there are as many, spread evenly. Without a regime ``n_normal`` budgets spread
    over all, the first and the last among them.

    budgets: those to choose inner and normal ones from; the edges are taken as they are.
    """
    regimes, budgets = list(regimes), sorted(set(budgets))
    chosen: set[int] = set()
    for regime in regimes:
        chosen |= {side for edge in regime.edges for side in edge}
        inner = [n for n in budgets if regime.onset_high <= n <= regime.recovery_low]
        inner.sort(key=lambda n: (n in chosen, n != regime.worst_n_gen, abs(n - regime.worst_n_gen), n))
        chosen |= set(inner[:n_inside]) or {regime.worst_n_gen}
    normal = [n for n in budgets if n not in chosen and not any(regime.holds(n) for regime in regimes)]
    for regime in regimes:
        below = [n for n in normal if n < regime.onset_high]
        above = [n for n in normal if n > regime.recovery_low]
        few = n_normal // 2
        n_below = min(len(below), max(few, n_normal - len(above)))
        chosen |= set(_spread(below, n_below)) | set(_spread(above, n_normal - n_below))
    if not regimes:
        chosen |= set(_spread(normal, n_normal))
    return sorted(chosen)


def _spread(numbers: list[int], count: int) -> list[int]:
    """So many of the sorted numbers, as evenly as they allow: the first, the last, and those nearest to even steps."""
    if count >= len(numbers):
        return numbers
    if count < 2:
        return numbers[len(numbers) // 2 :][:count]
    low, high = numbers[0], numbers[-1]
    left = set(numbers)
    for step in range(count):
        place = low + (high - low) * step / (count - 1)
        left.remove(min(left, key=lambda n: (abs(n - place), n)))
    return sorted(set(numbers) - left)
