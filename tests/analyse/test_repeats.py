"""Which runs are worth measuring again, and that no other stack's are among them."""

import json

import polars as pl

from speedbump.analyse.repeats import repeat_command, runs_to_repeat
from speedbump.tables import CELLS, FAULTS, write_table


def study(folder, *rows, faults=(), planned=9):
    blank = dict.fromkeys(CELLS.schema)
    cells = [{**blank, "machine": "m", "stack": "new", "outcome": "ok", **row} for row in rows]
    write_table(pl.DataFrame(cells, schema=CELLS.schema), CELLS, folder / "cells.parquet")
    write_table(pl.DataFrame(list(faults), schema=FAULTS.schema), FAULTS, folder / "faults.parquet")
    (folder / "study.json").write_text(json.dumps({"machine": "m", "stacks": ["new"], "runs": {"planned": planned}}))
    return runs_to_repeat(folder)


def test_failed_and_disturbed_cells_of_this_stack_and_no_others(tmp_path):
    found = study(
        tmp_path,
        {"cell": "fine"},
        {"cell": "failed", "outcome": "killed"},
        {"cell": "busy", "disturbed": "swap"},
        {"cell": "lacking", "outcome": "unsupported"},
        {"cell": "slow", "outcome": "stopped", "message": "stopped by the request limit of 60 s"},
        {"cell": "guarded", "outcome": "stopped", "message": "stopped by the memory guard: swap grew"},
        {
            "cell": "left",
            "outcome": "beyond_memory",
            "message": "not started: the memory guard stopped 8 and 16 tokens",
        },
        {
            "cell": "full",
            "outcome": "stopped",
            "message": "stopped by the memory guard: 1.5 GiB of disk free, the limit is 2",
        },
        {"cell": "swapped", "own_swap_bytes": 3 << 30},
        {"cell": "odd", "outcome": "inconsistent", "message": "2 different outputs in 5 requests of this length"},
        {"cell": "old", "outcome": "killed", "stack": "old"},
        {"cell": "guest", "outcome": "killed", "machine": "other"},
        faults=[
            {"file": "results/runs/m/new/torn.parquet", "cell": "torn", "problem": "unreadable", "message": "x"},
            {"file": "results/runs/m/old/torn.parquet", "cell": "torn", "problem": "unreadable", "message": "x"},
            {"file": "their.bundle", "cell": None, "problem": "refused bundle", "message": "x"},
        ],
    )
    assert found == [f"results/runs/m/new/{cell}.parquet" for cell in ("torn", "failed", "busy", "full", "odd")]


def test_what_a_bundle_brought_cannot_be_measured_again_by_a_study_without_experiments(tmp_path):
    assert study(tmp_path, {"cell": "failed", "outcome": "killed"}, planned=0) == []


def test_the_line_names_the_study_unless_it_is_the_default():
    assert repeat_command(["a"], "config/config.yaml") == "snakemake --cores 1 -R a"
    assert repeat_command(["a"], "config/scan.yaml") == "snakemake --cores 1 --configfile config/scan.yaml -R a"
