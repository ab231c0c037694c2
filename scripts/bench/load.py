"""Other work on the machine while a series is measured: what it does to requests, and to the fixed workload."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from speedbump.analyse.curve import Array, Flags
from speedbump.measure.environment import SENTINEL_DRIFT

AT_REST_S = (0.005, 0.009)
"""What the device's and the host's fixed workload take on a quiet machine."""
_AT_REST_SD = 0.04
_CELL_SD = 0.35
_REQUEST_SD = 0.25
_FIXED_SD = 0.3
"""Standard deviations of logs under a load: of a cell's slow-down, of a request's in it, of the fixed workload's."""


@dataclass(frozen=True)
class Load:
    """Other work on the machine.

    when: ``begins`` or ``ends`` midway, ``passes`` in the middle, or is there ``throughout``.
    factor: how many times as long loaded requests take, in the middle; the fixed workload as well.
    ordered: the lengths are measured in rising order, so that loaded ones are neighbours; else in random order.
    counted: the machine's counters show it, so that every loaded cell is flagged; else the fixed workload alone can.
    known: another series was measured on the machine while it was at rest.
    """

    when: str
    factor: float
    ordered: bool = False
    counted: bool = True
    known: bool = False


@dataclass(frozen=True)
class FixedWork:
    """Around every cell. seconds: before and after, device and host, shape (n, 2, 2).  flagged: shape (n,)."""

    seconds: Array
    flagged: Flags


def run_beside(load: Load, n: int, rng: np.random.Generator) -> tuple[Callable[[int], list[Array]], FixedWork]:
    """Measure ``n`` cells beside a load: what to add to the log seconds of their requests, and the fixed work.

    A cell during which the load comes or goes meets it in every request, but in one of its two sentinels only.
    """
    place = np.arange(n) if load.ordered else rng.permutation(n)
    loaded_at = _loaded_moments(load.when, n, rng)
    before, after = loaded_at[place], loaded_at[place + 1]
    loaded = before | after
    of_cell = np.log(load.factor) + rng.normal(0, _CELL_SD * min(1.0, np.log(load.factor)), n)

    def slowed(repeats: int) -> list[Array]:
        spread = _REQUEST_SD * min(1.0, np.log(load.factor))
        return [np.where(loaded[i], of_cell[i] + rng.normal(0, spread, repeats), 0.0) for i in range(n)]

    fixed = at_rest(n, rng)
    for k, under_load in enumerate((before, after)):
        extra = np.log(load.factor) + rng.normal(0, _FIXED_SD * min(1.0, np.log(load.factor)), (n, 2))
        fixed.seconds[:, k] *= np.exp(np.where(under_load[:, None], extra, 0.0))
    drift = np.abs(np.log(fixed.seconds[:, 1] / fixed.seconds[:, 0])).max(axis=1) > np.log(SENTINEL_DRIFT)
    return slowed, FixedWork(fixed.seconds, drift | (loaded & load.counted))


def at_rest(n: int, rng: np.random.Generator) -> FixedWork:
    """The fixed workload of a quiet machine."""
    return FixedWork(np.array(AT_REST_S) * np.exp(rng.normal(0, _AT_REST_SD, (n, 2, 2))), np.zeros(n, bool))


def _loaded_moments(when: str, n: int, rng: np.random.Generator) -> Flags:
    """Whether the load is there before each cell, in the order of measuring, and after the last; shape (n + 1,)."""
    moment = np.arange(n + 1)
    change = int(rng.integers(n // 4 + 1, 3 * n // 4 + 1))
    if when == "begins":
        return moment >= change
    if when == "ends":
        return moment < change
    if when == "passes":
        return (moment >= change - n // 8) & (moment <= change + n // 8)
    return np.ones(n + 1, bool)
