"""The quick look after an upgrade: the cells that decide whether the slow regimes of an earlier stack have moved."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from speedbump.grid.cells import Cell, cell_id, series_id
from speedbump.grid.estimate import estimate_s, in_words, measured_scale, read_records
from speedbump.grid.listing import visible
from speedbump.grid.models import Model
from speedbump.grid.stack import stack_order
from speedbump.grid.study import Protocol, Study, StudyError
from speedbump.plan.known_regimes import KnownSeries, deciding_budgets, read_known
from speedbump.plan.refinement_plan import PLANNED, planned_cells

ROUND = 0
"""Number of the plan that keeps a check's cells, before refinement's: the full run takes up what it measured."""


@dataclass(frozen=True)
class Check:
    """cells: by experiment, those that decide.  full: those that the full run would measure if nothing had changed.

    reference: the earlier stack.  notices: what is left to the full run, and why.
    """

    reference: str
    cells: dict[str, list[Cell]]
    full: dict[str, list[Cell]]
    notices: list[str]


def choose_check(
    study: Study, grid: Mapping[str, list[Cell]], folder: Path, runs: Path, plans: Path, stack: str
) -> Check:
    """The cells to measure on ``stack``, out of those that the full run would measure too.

    folder: the study's, whose report knows the regimes.  runs, plans: this machine's folders of the study, with one for
    each stack.  The earlier stack is the newest of those that are older than this one.
    Raises StudyError when there is nothing to check against.
    """
    if study.stacks:
        raise StudyError("check: the study lists its stacks, and measures them all; a check is of the stack in use")
    machine = runs.name
    scan = {name: {cell_id(cell) for cell in cells} for name, cells in grid.items()}
    earlier = _earlier_stacks(runs, set().union(*scan.values()), stack)
    if not earlier:
        raise StudyError(
            f"check: no earlier stack of the study {study.study} is measured on this machine: there is nothing to hold "
            f"{stack} against; run the study, upgrade, then check"
        )
    reference, known = _known_of(folder, machine, earlier)
    full = {name: planned_cells(cells, plans, machine, reference, name) for name, cells in grid.items()}
    chosen: dict[str, list[Cell]] = {}
    notices: list[str] = []
    for name, cells in full.items():
        chosen[name] = []
        for series, own in _by_series(cells, machine, reference).items():
            there = [cell for cell in own if (runs / reference / f"{cell_id(cell)}.parquet").exists()]
            if own[0].get("instrument") == "profile":
                notices.append(f"{name}: profiles are in no curve: left to the full run")
            elif any("sequence" in cell for cell in own):
                notices.append(f"{name}: a persistent process measures its lengths together: left to the full run")
            elif series not in known or known[series].verdict == "not measured" or not there:
                notices.append(f"{name}: {_title(own[0])} has no finished run with {reference}: left to the full run")
            else:
                chosen[name] += _deciding_cells(known[series], there, scan[name], study.protocol)
    if not any(chosen.values()):
        raise StudyError(f"check: {'; '.join(dict.fromkeys(notices)) or 'nothing to measure'}")
    return Check(reference, chosen, full, list(dict.fromkeys(notices)))


def _earlier_stacks(runs: Path, cells: set[str], stack: str) -> list[str]:
    """Those with runs of such cells, the newest last."""
    others = (folder for folder in visible(runs, "*/") if stack_order(folder.name) < stack_order(stack))
    measured = (folder.name for folder in others if any((folder / f"{cell}.parquet").exists() for cell in cells))
    return sorted(measured, key=stack_order)


def _known_of(folder: Path, machine: str, earlier: list[str]) -> tuple[str, dict[str, KnownSeries]]:
    """The newest of the earlier stacks that the study's report knows, whole or partial, and its series by id."""
    for place in (folder, folder / "partial"):
        if (place / "site" / "summary.json").exists():
            known = [series for series in read_known(place) if series.machine == machine]
            for stack in reversed(earlier):
                if found := {series.series: series for series in known if series.stack == stack}:
                    return stack, found
    raise StudyError(
        f"check: no report in {folder} knows of {earlier[-1]}: build one, make report or --config partial=true"
    )


def _by_series(cells: list[Cell], machine: str, stack: str) -> dict[str, list[Cell]]:
    grouped: dict[str, list[Cell]] = {}
    for cell in cells:
        grouped.setdefault(series_id(cell, machine, stack), []).append(cell)
    return grouped


def _deciding_cells(known: KnownSeries, cells: list[Cell], scan: set[str], protocol: Protocol) -> Iterator[Cell]:
    """One cell a budget: the scan's, else one with a fixed number of requests, which is the same on every stack. An
    edge that only a probe measured is measured by the study's protocol: a probe ends by the old stack's seconds.
    """
    first: dict[int, Cell] = {}
    for cell in sorted(cells, key=lambda cell: (cell_id(cell) not in scan, "probe" in cell, cell.get("process", 1))):
        first.setdefault(cell["n_gen"], cell)
    whole = [n_gen for n_gen, cell in first.items() if "probe" not in cell]
    for n_gen in deciding_budgets(known.regimes, whole or first):
        if n_gen in first:
            cell = first[n_gen]
            if "probe" in cell:
                cell = {**cell, "warmups": protocol.warmups, "repeats": protocol.repeats}
                del cell["probe"]
            yield cell


def _title(cell: Cell) -> str:
    return f"{cell['model']} on {cell['device']}"


def keep_check(
    check: Check,
    plans: Path,
    machine: str,
    stack: str,
    grid: Mapping[str, list[Cell]],
    keep: Callable[[Path, str], None],
) -> None:
    """Give ``keep`` the check's cells that no scan has, as plans of ROUND."""
    for name, cells in check.cells.items():
        scan = {cell_id(cell) for cell in grid[name]}
        added = [cell for cell in cells if cell_id(cell) not in scan]
        file = plans / stack / name / f"{ROUND}.json"
        if added or file.exists():
            entries = [
                {"series": series_id(cell, machine, stack), **{key: cell[key] for key in PLANNED if key in cell}}
                for cell in added
            ]
            keep(file, json.dumps({"round": ROUND, "cells": entries}, indent=2) + "\n")


def describe_check(check: Check, runs: Path, stack: str, models: Mapping[str, Model]) -> list[str]:
    """What the check costs and what the full run would, by what the same cells took on the earlier stack."""
    records = list(read_records(visible(runs / check.reference, "*.parquet")))
    took_s = {cell_id(record["cell"]): record["wall_s"] for record in records}
    scale = measured_scale(records, models)

    def cost(cells: Mapping[str, list[Cell]]) -> tuple[int, int, float]:
        unique = {cell_id(cell): cell for own in cells.values() for cell in own}
        left = {name: cell for name, cell in unique.items() if not (runs / stack / f"{name}.parquet").exists()}
        seconds = (took_s.get(name, estimate_s(cell, models[cell["model"]], scale)) for name, cell in left.items())
        return len(unique), len(unique) - len(left), sum(seconds)

    n_cells, n_done, seconds = cost(check.cells)
    n_full, n_full_done, full_s = cost(check.full)
    return [
        f"{stack} is checked against {check.reference}, which took the times below",
        f"the check: {_count(n_cells, n_done)}, about {in_words(seconds)} left",
        f"the full run: {_count(n_full, n_full_done)}, about {in_words(full_s)} left, the check's cells among them",
        *check.notices,
    ]


def _count(cells: int, done: int) -> str:
    return f"{cells} cell{'s' * (cells != 1)}, {done} done"
