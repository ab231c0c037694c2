"""Cells worth measuring again: those that failed, could not be read, or were disturbed."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.plan.location import code_folder
from speedbump.plan.next_study import run_command
from speedbump.tables import CELLS, FAULTS, read_table

LASTING = ("ok", "unsupported", "beyond_memory", "stopped")
"""Outcomes that measuring again would not change: that a request was stopped at a limit, or by the memory guard, is its
answer."""
_NO_ROOM = "of disk free, the limit is"
"""Words of a stop by the guard that says nothing of the cell, but that the disk was full."""


PATIENCE_S = 600
"""That is offered where the machine was busy: how long a cell then waits for a quiet moment."""
MOST_NAMED = 5


def runs_to_repeat(folder: Path) -> list[str]:
    """Run files of the study's failed, unreadable and disturbed cells; see ``repeats_of``."""
    cells, faults = (read_table(folder / f"{table.name}.parquet", table) for table in (CELLS, FAULTS))
    return repeats_of(cells, faults, json.loads((folder / "study.json").read_text()))


def repeats_of(cells: pl.DataFrame, faults: pl.DataFrame, study: Mapping[str, Any]) -> list[str]:
    """Run files of failed, unreadable and disturbed cells on the machine and stacks that measure now: what another
    stack or machine measured cannot be measured again here. A stop is an answer, and stays, unless the disk was full. A
    study of bundles alone has none.

    cells, faults: tables.CELLS and tables.FAULTS.  study: study.json.
    """
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


def repeat_command(files: Sequence[str], configfile: str, *options: str) -> str:
    """The line that measures exactly these runs again. options: what ``--config`` gets."""
    given = ["--config", *options] if options else []
    return run_command(configfile, *given, "-R", *files)


def repeat_line(files: Sequence[str], configfile: str, folder: Path, *options: str) -> str:
    """The same for a terminal: more than a few runs are listed by a script when the line runs."""
    if len(files) <= MOST_NAMED:
        return repeat_command(files, configfile, *options)
    script = shlex.join([str(code_folder() / "scripts/list_repeats.py"), str(folder)])
    return f"{repeat_command([], configfile, *options)} $(python {script})"


def patient_line(files: Sequence[str], configfile: str, folder: Path, *options: str) -> str:
    """The same, each cell once the machine is quiet, or after PATIENCE_S."""
    return repeat_line(files, configfile, folder, *options, f"patience_s={PATIENCE_S}")
