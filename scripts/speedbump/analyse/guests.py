"""Other machines in a study: the runs of the bundles that it lists."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.analyse.bundle import BundleError, read_bundle
from speedbump.analyse.runs import Runs, with_fault
from speedbump.grid.cells import series_id

_ROWS = ("requests", "samples", "profiles")
"""Of ``Runs``: the tables whose rows each belong to a cell."""


def with_bundles(own: Runs, machine: str, origin: str | None, bundles: Iterable[str]) -> Runs:
    """The runs of the machine that builds the report, and those of every bundle.

    machine, origin: of the one that builds it; origin None where it never made a bundle.
    A bundle is used whole or refused whole, as a row of the faults. Where two machines have one slug, the later is
    called ``<slug>~<origin>``. A run that is there already is not taken twice.
    """
    owners: dict[str, str | None] = {machine: origin}
    every = own
    for bundle in dict.fromkeys(bundles):
        try:
            guests, origin_of_bundle = read_bundle(Path(bundle))
        except BundleError as error:
            every = with_fault(every, bundle, "refused bundle", str(error))
            continue
        every = _join(every, _renamed(guests, origin_of_bundle, owners))
    return every


def _renamed(runs: Runs, origin: str, owners: dict[str, str | None]) -> Runs:
    """The runs under names of machines that nobody else has; ``owners`` learns them."""
    names = {}
    for machine in sorted({record["machine"] for record in runs.records}):
        taken = machine in owners and owners[machine] != origin
        names[machine] = f"{machine}~{origin}" if taken else machine
        owners.setdefault(names[machine], origin)
    series = {}
    records: list[dict[str, Any]] = []
    for record in runs.records:
        machine = names[record["machine"]]
        old, new = (series_id(record["cell"], place, record["stack"]) for place in (record["machine"], machine))
        series[old] = new
        records.append({**record, "machine": machine})
    columns = {"machine": pl.col("machine").replace(names), "series": pl.col("series").replace(series)}
    renamed = {name: getattr(runs, name).with_columns(**columns) for name in _ROWS}
    return replace(runs, **renamed, records=records)


def _join(runs: Runs, more: Runs) -> Runs:
    """Both, without the runs of ``more`` that are in ``runs`` already."""
    place = ["machine", "stack", "cell"]
    known = runs.requests.select(place).unique()
    there = set(known.rows())
    joined = {
        name: pl.concat([getattr(runs, name), getattr(more, name).join(known, on=place, how="anti")]) for name in _ROWS
    }
    return Runs(
        **joined,
        faults=runs.faults,
        records=[*runs.records, *(r for r in more.records if (r["machine"], r["stack"], r["cell_id"]) not in there)],
    )
