"""Whether a curve was left: once the memory guard has stopped two lengths in a row, no longer one is started."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from speedbump.grid.cells import Cell, series_id, slug
from speedbump.grid.listing import visible
from speedbump.grid.room import SINCE
from speedbump.tables import REQUESTS, TableError, read_metadata, read_table

IN_A_ROW = 2


def why_left(cell: Cell, out: Path, environment: Mapping[str, str] = os.environ) -> str | None:
    """Why the cell is not started, or None: what became of its curve's longest lengths up to its own.

    out: the cell's file; the curve's other runs lie beside it. Lengths that were left too say nothing, nor do, in a run
    that measures cells again, stops from before it (SINCE, in Unix seconds).
    """
    if cell.get("n_gen") is None:
        return None
    series = series_id(cell, "", "")
    stopped: list[int] = []
    for n_gen, files in _runs_up_to(cell, out):
        statuses = [status for file in files if (status := _status(file, series, environment)) is not None]
        if "other" in statuses:
            return None
        if statuses:
            stopped.append(n_gen)
        if len(stopped) == IN_A_ROW:
            one, other = reversed(stopped)
            return (
                f"not started: the memory guard stopped {one} and {other} tokens of this curve; -R measures it anyway"
            )
    return None


def _runs_up_to(cell: Cell, out: Path) -> Iterator[tuple[int, list[Path]]]:
    """Run files of the model and device by length, the longest first, without the cell's own."""
    by_length: dict[int, list[Path]] = {}
    for file in visible(out.parent, f"{slug(cell['model'])}.{cell['device']}.*.parquet"):
        _, n_gen, _ = file.stem.rsplit(".", 2)
        if file != out and n_gen.isdigit() and int(n_gen) <= cell["n_gen"]:
            by_length.setdefault(int(n_gen), []).append(file)
    yield from sorted(by_length.items(), reverse=True)


def _status(file: Path, series: str, environment: Mapping[str, str]) -> str | None:
    """``stopped`` by the memory guard, or ``other``; None where the run says nothing of the series' memory."""
    try:
        if series_id(json.loads(read_metadata(file)["speedbump"])["cell"], "", "") != series:
            return None
        rows = read_table(file, REQUESTS)
    except (TableError, LookupError, ValueError):
        return None
    if "beyond_memory" in rows["status"]:
        return None
    for_memory = pl.col("message").str.contains("memory guard") & ~pl.col("message").str.contains("of disk free")
    if rows.filter(pl.col("status") == "stopped", for_memory).is_empty():
        return "other"
    return "stopped" if file.stat().st_mtime >= float(environment.get(SINCE, 0)) else None
