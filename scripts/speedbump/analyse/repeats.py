"""Cells worth measuring again: those that failed, could not be read, or were disturbed."""

import json
from pathlib import Path

import polars as pl

from speedbump.grid.suggestion import run_command
from speedbump.tables import CELLS, FAULTS, read_table

LASTING = ("ok", "unsupported", "stopped")
"""Outcomes that measuring again would not change: that a request was stopped at a limit, or by the memory guard, is its
answer."""
_NO_ROOM = "of disk free, the limit is"
"""Words of a stop by the guard that says nothing of the cell, but that the disk was full."""


def runs_to_repeat(folder: Path) -> list[str]:
    """Run files of the study's failed, unreadable and disturbed cells on the machine and stacks that measure now:
    what another stack or machine measured cannot be measured again here. A stop is an answer, and stays, unless the
    disk was full. A study of bundles alone has none.
    """
    cells = read_table(folder / "cells.parquet", CELLS)
    faults = read_table(folder / "faults.parquet", FAULTS)
    study = json.loads((folder / "study.json").read_text())
    if not study["runs"]["planned"]:
        return []
    here = {stack: Path("results", "runs", study["machine"], stack) for stack in study["stacks"]}
    lasts = pl.col("outcome").is_in(LASTING) & ~pl.col("message").str.contains(_NO_ROOM, literal=True).fill_null(False)
    again = cells.filter(
        (pl.col("machine") == study["machine"]) & pl.col("stack").is_in(study["stacks"]),
        ~lasts | pl.col("disturbed").is_not_null(),
    )
    unreadable = faults.filter(pl.col("cell").is_not_null())["file"]
    return list(
        dict.fromkeys(
            [
                *(file for file in unreadable if Path(file).parent in here.values()),
                *(str(here[stack] / f"{cell}.parquet") for stack, cell in again.select("stack", "cell").iter_rows()),
            ]
        )
    )


def repeat_command(files: list[str], configfile: str) -> str:
    """The line that measures exactly these runs again."""
    return run_command(configfile, "-R", *files)
