"""Run files: read, verified, joined. What cannot be used is named, and the rest goes on."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.grid.cells import cell_id
from speedbump.tables import FAULTS, REQUESTS, TableError, read_metadata, read_table


@dataclass(frozen=True)
class Runs:
    """requests: table of every usable file.  faults: table of the others.  records: metadata of each usable file,
    with its ``cell_id``.
    """

    requests: pl.DataFrame
    faults: pl.DataFrame
    records: list[dict[str, Any]]


def read_runs(files: Iterable[str | Path]) -> Runs:
    """Read run files, each named ``runs/<machine>/<stack>/<cell>.parquet``.

    A file's name, its place and the parameters inside must agree: without that check, a file that was
    copied, renamed or written by other measuring code would pass for a measurement it is not.
    """
    frames, faults, records = [], [], []
    for file in map(Path, files):
        try:
            frame = read_table(file, REQUESTS)
            record = json.loads(read_metadata(file).get("speedbump", "null"))
            problem = _contradiction(file, frame, record)
        except (TableError, ValueError) as error:
            problem = ("missing" if not file.exists() else "unreadable", str(error))
        if problem is None:
            frames.append(frame)
            records.append({**record, "cell_id": file.stem})
        else:
            faults.append({"file": str(file), "cell": file.stem, "problem": problem[0], "message": problem[1]})
    return Runs(
        requests=pl.concat(frames) if frames else pl.DataFrame(schema=REQUESTS.schema),
        faults=pl.DataFrame(faults, schema=FAULTS.schema),
        records=records,
    )


def _contradiction(file: Path, frame: pl.DataFrame, record: Any) -> tuple[str, str] | None:
    """What in a readable file contradicts its name, as (problem, message)."""
    try:
        cell, place = record["cell"], (record["machine"], record["stack"])
        expected = cell_id(cell)
    except (KeyError, TypeError):
        return "unreadable", f"{file}: has no record of what was measured"
    if expected != file.stem:
        return "wrong parameters", f"{file}: holds the parameters of {expected}, protocol {cell.get('protocol')}"
    if place != (file.parts[-3], file.parts[-2]):
        return "wrong parameters", f"{file}: was measured on {place[0]} with {place[1]}"
    if frame.is_empty() or set(frame["cell"].unique()) != {file.stem}:
        return "unreadable", f"{file}: its rows are not those of its cell"
    return None
