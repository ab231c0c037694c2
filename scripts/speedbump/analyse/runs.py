"""Run files: read, verified, joined. What cannot be used is named, and the rest goes on."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.grid.axes import AXES
from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.tables import FAULTS, MEMORY_SAMPLES, REQUESTS, TableError, read_metadata, read_table

_SHARED = tuple(axis.name for axis in AXES if axis.name != "n_gen")
"""Axes that all requests of a run share; a persistent process goes through several budgets."""


@dataclass(frozen=True)
class Runs:
    """requests: table of every usable file.  samples: the memory samples beside those of memory runs.  faults: table
    of the others.  records: metadata of each usable file, with its ``cell_id``.
    """

    requests: pl.DataFrame
    samples: pl.DataFrame
    faults: pl.DataFrame
    records: list[dict[str, Any]]


def read_runs(files: Iterable[str | Path]) -> Runs:
    """Read run files, each named ``runs/<machine>/<stack>/<cell>.parquet``.

    A file's name, its place and the parameters inside must agree: without that check, a file that was
    copied, renamed or written by other measuring code would pass for a measurement it is not.
    """
    frames, samples, faults, records = [], [], [], []
    for file in map(Path, files):
        try:
            frame = read_table(file, REQUESTS)
            record = json.loads(read_metadata(file).get("speedbump", "null"))
            sampled = _read_samples(file, frame)
            problem = _contradiction(file, frame, record)
        except (TableError, ValueError) as error:
            problem = ("missing" if not file.exists() else "unreadable", str(error))
        if problem is None:
            frames.append(frame)
            samples.append(sampled)
            records.append({**record, "cell_id": file.stem})
        else:
            faults.append({"file": str(file), "cell": file.stem, "problem": problem[0], "message": problem[1]})
    return Runs(
        requests=pl.concat([REQUESTS.schema.to_frame(), *frames]),
        samples=pl.concat([MEMORY_SAMPLES.schema.to_frame(), *samples]),
        faults=pl.DataFrame(faults, schema=FAULTS.schema),
        records=records,
    )


def samples_file(run: Path) -> Path:
    """Where a memory run's samples lie."""
    return run.with_suffix(".memory.parquet")


def _read_samples(run: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """The samples of a memory run; of another, none. Raises TableError."""
    if "memory" not in frame["instrument"]:
        return MEMORY_SAMPLES.schema.to_frame()
    samples = read_table(samples_file(run), MEMORY_SAMPLES)
    owner = ["series", "cell", "machine", "stack"]
    if not samples.join(frame, on=owner, how="anti").is_empty():
        raise TableError(f"{samples_file(run)}: its rows are not those of its cell")
    return samples


def _contradiction(file: Path, frame: pl.DataFrame, record: Any) -> tuple[str, str] | None:
    """What in a readable file contradicts its name, as (problem, message)."""
    try:
        cell, place = record["cell"], (record["machine"], record["stack"])
        expected, series, axes = cell_id(cell), series_id(cell, *place), axes_of(cell)
    except (KeyError, TypeError, AttributeError):
        return "unreadable", f"{file}: has no record of what was measured"
    if expected != file.stem:
        return "wrong parameters", f"{file}: holds the parameters of {expected}, protocol {cell.get('protocol')}"
    if place != (file.parts[-3], file.parts[-2]):
        return "wrong parameters", f"{file}: was measured on {place[0]} with {place[1]}"
    shared = {name: axes[name] for name in _SHARED}
    expected_row = {**shared, "series": series, "cell": file.stem, "machine": place[0], "stack": place[1]}
    if frame.select(list(expected_row)).unique().to_dicts() != [expected_row]:
        return "unreadable", f"{file}: its rows are not those of its cell"
    return None
