"""The requests of a cell, in order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Planned:
    """One request to come. ``request``: its index in the process, from 0. ``n_gen``: its budget in tokens."""

    request: int
    phase: str
    n_gen: int


def plan_requests(cell: Mapping[str, Any]) -> list[Planned]:
    """The cell's warm-ups, at its first budget, then its repeats at every budget in order.

    A fresh process has one budget, ``n_gen``; a persistent one has a ``sequence`` of them, and is warmed up
    once, because what the process did before is what it is there to show. A probe asks for as many
    repeats as it may need; of a profile there is one.
    """
    budgets = cell.get("sequence") or [cell["n_gen"]]
    repeats = cell["probe"]["max_repeats"] if cell.get("probe") else cell["repeats"]
    if cell.get("instrument") == "profile":
        repeats = 1
    warmups = [("warmup", budgets[0])] * cell["warmups"]
    measured = [("measured", budget) for budget in budgets for _ in range(repeats)]
    return [Planned(index, phase, n_gen) for index, (phase, n_gen) in enumerate(warmups + measured)]


def is_decided(probe: Mapping[str, Any], measured_s: list[float]) -> bool:
    """Whether a probe has seen enough: all requests so far are clearly normal, or all clearly slow.

    probe: ``min_repeats``, and ``normal_below_s`` and ``slow_above_s`` in seconds of E2E.
    """
    if len(measured_s) < probe["min_repeats"]:
        return False
    return all(e2e_s < probe["normal_below_s"] for e2e_s in measured_s) or all(
        e2e_s > probe["slow_above_s"] for e2e_s in measured_s
    )
