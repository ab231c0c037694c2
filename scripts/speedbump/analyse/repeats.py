"""Cells worth measuring again: those that failed, could not be read, or were disturbed."""

import shlex
from pathlib import Path

import polars as pl

from speedbump.tables import CELLS, FAULTS, read_table

LASTING = ("ok", "unsupported")
"""Outcomes that measuring again would not change."""


def runs_to_repeat(folder: Path) -> list[str]:
    """Run files of a study's failed, unreadable and disturbed cells, those of other machines' bundles apart. A stop at
    the request limit is an answer, and stays.
    """
    cells = read_table(folder / "cells.parquet", CELLS)
    faults = read_table(folder / "faults.parquet", FAULTS)
    limit = (pl.col("outcome") == "stopped") & pl.col("message").str.contains("request limit")
    again = cells.filter(
        ~(pl.col("outcome").is_in(LASTING) | limit.fill_null(False)) | pl.col("disturbed").is_not_null()
    )
    files = [
        f"results/runs/{row['machine']}/{row['stack']}/{row['cell']}.parquet" for row in again.iter_rows(named=True)
    ]
    here = [file for file in files if Path(file).exists()]
    return list(dict.fromkeys([*faults.filter(pl.col("cell").is_not_null())["file"], *here]))


def repeat_command(files: list[str], configfile: str) -> str:
    """The line that measures exactly these runs again."""
    chosen = [] if configfile == "config/config.yaml" else ["--configfile", configfile]
    return shlex.join(["snakemake", "--cores", "1", *chosen, "-R", *files])
