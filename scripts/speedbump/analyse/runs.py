"""Run files: read, verified, joined. What cannot be used is named, and the rest goes on."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.analyse.own_swap import with_own_swap
from speedbump.analyse.verification import FILE, ContradictionError, are_sound, check_rows, expect
from speedbump.tables import (
    FAULTS,
    MEMORY_SAMPLES,
    PROFILES,
    REQUESTS,
    Table,
    TableError,
    check_table,
    late_values,
    mark_inconsistent,
    read_metadata,
    read_table,
)

DEEPEST = 20
"""How far lists and objects of a record may nest; JSON is written, and scrubbed, a call for every level."""
AT_ONCE = 1000
"""Files that are read and verified in one go: one by one takes ten times as long."""
FEW = 8
"""Files among which a bad one is looked for one by one."""


@dataclass(frozen=True)
class Runs:
    """requests: table of every usable file.  samples: the memory samples beside those of memory runs.  profiles: the
    operators beside those of profiled runs.  faults: table of the others.  records: metadata of each usable file,
    with its ``cell_id``.
    """

    requests: pl.DataFrame
    samples: pl.DataFrame
    profiles: pl.DataFrame
    faults: pl.DataFrame
    records: list[dict[str, Any]]


def with_fault(runs: Runs, file: str, problem: str, message: str) -> Runs:
    """The runs, and that a file which is no run's cannot be used."""
    fault = {"file": file, "cell": None, "problem": problem, "message": message}
    return replace(runs, faults=pl.concat([runs.faults, pl.DataFrame([fault], schema=FAULTS.schema)]))


def read_runs(files: Iterable[str | Path]) -> Runs:
    """Read run files, each named ``runs/<machine>/<stack>/<cell>.parquet``.

    A file's name, its place and the parameters inside must agree: without that check, a file that was
    copied, renamed or written by other measuring code would pass for a measurement it is not. What older measuring
    code did not look for yet is looked for here: tokens that differ, and whose swap it was.
    """
    parts = [_nothing()]
    waiting = map(Path, files)
    while batch := list(islice(waiting, AT_ONCE)):
        parts += _read_many(batch)
    requests = pl.concat(part.requests for part in parts)
    records = [record for part in parts for record in part.records]
    return Runs(
        requests=mark_inconsistent(with_own_swap(requests, records)),
        samples=pl.concat(part.samples for part in parts),
        profiles=pl.concat(part.profiles for part in parts),
        faults=pl.concat(part.faults for part in parts),
        records=records,
    )


def _nothing() -> Runs:
    requests, samples, profiles, faults = (
        pl.DataFrame(schema=table.schema) for table in (REQUESTS, MEMORY_SAMPLES, PROFILES, FAULTS)
    )
    return Runs(requests, samples, profiles, faults, records=[])


def _read_many(files: Sequence[Path]) -> list[Runs]:
    """All at once where all are sound; else each half by itself."""
    if (runs := _read_sound(files)) is not None:
        return [runs]
    if len(files) <= FEW:
        return [_read_one(file) for file in files]
    half = len(files) // 2
    return [*_read_many(files[:half]), *_read_many(files[half:])]


def _read_sound(files: Sequence[Path]) -> Runs | None:
    """The runs of files in which there is nothing to be found; None where there is."""
    try:
        records = [read_record(file) for file in files]
        expected = [expect(file, record) for file, record in zip(files, records, strict=True)]
        requests = _scan(files, REQUESTS)
        beside = []
        for instrument, table in BESIDE.items():
            owners = [one.file for one in expected if one.row["instrument"] == instrument]
            beside.append(_scan(owners, table, {str(file_beside(run, instrument)): str(run) for run in owners}))
    except (TableError, ContradictionError):
        return None
    if not are_sound(requests, beside, expected):
        return None
    named = [{**record, "cell_id": file.stem} for file, record in zip(files, records, strict=True)]
    samples, profiles = (rows.drop(FILE) for rows in beside)
    return Runs(requests.drop(FILE), samples, profiles, pl.DataFrame(schema=FAULTS.schema), named)


def _scan(files: Sequence[Path], table: Table, runs: dict[str, str] | None = None) -> pl.DataFrame:
    """The rows of many files, and in the column FILE each one's run. Raises TableError.

    runs: the run's file by the file read, where that is another.
    """
    paths = list(runs or map(str, files))
    if not paths:
        return pl.DataFrame(schema={**table.schema, FILE: pl.String})
    try:
        frame = _read_together(paths, table)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"{len(paths)} files: {error}") from error
    names = frame[FILE].replace_strict(runs) if runs else frame[FILE]
    return check_table(frame.drop(FILE), table, f"{len(paths)} files").with_columns(names)


def _read_together(paths: list[str], table: Table) -> pl.DataFrame:
    """Many files as one frame; those from before a late column get what ``late_values`` says, where others have it."""
    try:
        return pl.read_parquet(paths, glob=False, include_file_paths=FILE)
    except pl.exceptions.PolarsError:
        late = late_values(table)
        for path in paths:
            if not {*table.schema} - {*pl.read_parquet_schema(path)} <= {*late}:
                raise
        frame = pl.read_parquet(
            paths, glob=False, include_file_paths=FILE, schema=table.schema, missing_columns="insert"
        )
        return frame.with_columns(pl.col(name).fill_null(value) for name, value in late.items())


def _read_one(file: Path) -> Runs:
    """A single file's run, or the fault that it is."""
    try:
        frame = read_table(file, REQUESTS)
        record = read_record(file)
        samples, profiles = (_read_beside(file, frame, instrument) for instrument in BESIDE)
        check_rows(frame, (samples, profiles), expect(file, record))
    except (TableError, ContradictionError) as found:
        if isinstance(found, ContradictionError):
            problem, message = found.problem, found.message
        else:
            problem, message = "unreadable" if file.exists() else "missing", str(found)
        fault = {"file": str(file), "cell": file.stem, "problem": problem, "message": message}
        return replace(_nothing(), faults=pl.DataFrame([fault], schema=FAULTS.schema))
    named = {**record, "cell_id": file.stem}
    return replace(_nothing(), requests=frame, samples=samples, profiles=profiles, records=[named])


BESIDE = {"memory": MEMORY_SAMPLES, "profile": PROFILES}
"""By instrument: the table that its runs have beside their requests."""


def file_beside(run: Path, instrument: str) -> Path:
    """Where a run of the instrument has its further table."""
    return run.with_suffix(f".{instrument}.parquet")


def read_record(file: Path) -> Any:
    """What a run's file says of its measurement. Raises TableError when that could not be written as JSON again."""
    try:
        record = json.loads(read_metadata(file).get("speedbump", "null"))
        if _depth(record) > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST} levels")
        json.dumps(record, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise TableError(f"{file}: its record cannot be used: {error}") from None
    return record


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _read_beside(run: Path, frame: pl.DataFrame, instrument: str) -> pl.DataFrame:
    """The further table of a run of this instrument; of another, none of its rows. Raises TableError."""
    table = BESIDE[instrument]
    if instrument not in frame["instrument"]:
        return table.schema.to_frame()
    file = file_beside(run, instrument)
    rows = read_table(file, table)
    owner = ["series", "cell", "machine", "stack"]
    if not rows.join(frame, on=owner, how="anti").is_empty():
        raise TableError(f"{file}: its rows are not those of its cell")
    return rows
