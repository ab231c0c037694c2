"""Run files: read, verified, joined. What cannot be used is named, and the rest goes on."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from speedbump.analyse.curve import LONGEST, LONGEST_S, SHORTEST_S
from speedbump.grid.axes import AXES, PROTOCOL_FIELDS
from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.tables import FAULTS, MEMORY_SAMPLES, PHASES, REQUESTS, STATUSES, TableError, read_metadata, read_table

_SHARED = tuple(axis.name for axis in AXES if axis.name != "n_gen")
"""Axes that all requests of a run share; a persistent process goes through several budgets."""

FIRST_DAY, LAST_DAY = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""Dates that can be written; a machine whose clock has stopped says the first."""
_LAST_S = LAST_DAY.timestamp()
_PASSES = ("ttft_s", "e2e_s", "sentinel_before_s", "sentinel_after_s")
"""Times in which work is done."""
LARGEST = 1 << 60
"""Bytes, or any other whole number that is said of a machine."""
DEEPEST = 20
"""How far lists and objects of a record may nest; JSON is written, and scrubbed, a call for every level."""


@dataclass(frozen=True)
class Runs:
    """requests: table of every usable file.  samples: the memory samples beside those of memory runs.  faults: table
    of the others.  records: metadata of each usable file, with its ``cell_id``.
    """

    requests: pl.DataFrame
    samples: pl.DataFrame
    faults: pl.DataFrame
    records: list[dict[str, Any]]


def with_fault(runs: Runs, file: str, problem: str, message: str) -> Runs:
    """The runs, and that a file which is no run's cannot be used."""
    fault = {"file": file, "cell": None, "problem": problem, "message": message}
    return replace(runs, faults=pl.concat([runs.faults, pl.DataFrame([fault], schema=FAULTS.schema)]))


def read_runs(files: Iterable[str | Path]) -> Runs:
    """Read run files, each named ``runs/<machine>/<stack>/<cell>.parquet``.

    A file's name, its place and the parameters inside must agree: without that check, a file that was
    copied, renamed or written by other measuring code would pass for a measurement it is not.
    """
    frames, samples, faults, records = [], [], [], []
    for file in map(Path, files):
        try:
            frame = read_table(file, REQUESTS)
            record = read_record(file)
            sampled = _read_samples(file, frame)
            problem = _contradiction(file, frame, sampled, record)
        except TableError as error:
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


def _read_samples(run: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """The samples of a memory run; of another, none. Raises TableError."""
    if "memory" not in frame["instrument"]:
        return MEMORY_SAMPLES.schema.to_frame()
    samples = read_table(samples_file(run), MEMORY_SAMPLES)
    owner = ["series", "cell", "machine", "stack"]
    if not samples.join(frame, on=owner, how="anti").is_empty():
        raise TableError(f"{samples_file(run)}: its rows are not those of its cell")
    return samples


class _Held(BaseModel):
    """Which devices a run held, and when, as the supervisor describes it."""

    model_config = ConfigDict(strict=True)
    slots: list[Annotated[str, Field(max_length=100)]] = Field(min_length=1, max_length=1000)
    devices: int = Field(ge=1, le=1000)
    boot: str | None = Field(max_length=100)
    since_s: float = Field(ge=0, le=_LAST_S)
    until_s: float = Field(ge=0, le=_LAST_S)


class _Record(BaseModel):
    """What is read of a run's record beside its cell and place."""

    model_config = ConfigDict(strict=True)
    environment: dict[str, Any]
    wall_s: float = Field(ge=0, le=LONGEST_S)
    held: _Held | None = None

    @field_validator("environment")
    @classmethod
    def _has_numbers_to_reckon_with(cls, environment: dict[str, Any]) -> dict[str, Any]:
        for key, value in environment.items():
            if key.endswith("_bytes") and not isinstance(value, int | float | None):
                raise ValueError(f"{key} is not a number")
            if isinstance(value, int) and abs(value) > LARGEST:
                raise ValueError(f"{key} is too large")
        return environment


def _contradiction(file: Path, frame: pl.DataFrame, samples: pl.DataFrame, record: Any) -> tuple[str, str] | None:
    """What in a readable file contradicts its name or cannot have been measured, as (problem, message)."""
    try:
        cell, place = record["cell"], (record["machine"], record["stack"])
        expected, series, axes = cell_id(cell), series_id(cell, *place), axes_of(cell)
        budgets = set(cell.get("sequence") or [axes["n_gen"]])
        protocol = {name: cell[name] for name in PROTOCOL_FIELDS}
        _Record.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        return "unreadable", f"{file}: record: {first['loc'][0]}: {first['msg']}"
    except (KeyError, TypeError, AttributeError, ValueError):
        return "unreadable", f"{file}: has no record of what was measured"
    if expected != file.stem:
        return "wrong parameters", f"{file}: holds the parameters of {expected}, protocol {cell.get('protocol')}"
    if place != (file.parts[-3], file.parts[-2]):
        return "wrong parameters", f"{file}: was measured on {place[0]} with {place[1]}"
    shared = {name: axes[name] for name in _SHARED}
    expected_row = {**shared, **protocol, "series": series, "cell": file.stem, "machine": place[0], "stack": place[1]}
    if frame.select(list(expected_row)).unique().to_dicts() != [expected_row]:
        return "unreadable", f"{file}: its rows are not those of its cell"
    if not all(isinstance(budget, int) and 1 <= budget <= LONGEST for budget in budgets):
        return "unreadable", f"{file}: a budget is not from 1 to {LONGEST} tokens"
    if not {*frame["n_gen"], *samples["n_gen"]} <= budgets:
        return "unreadable", f"{file}: its rows have budgets that its cell has not"
    wrong = _impossible(frame) or _impossible(samples)
    return ("unreadable", f"{file}: {wrong}") if wrong else None


def _impossible(frame: pl.DataFrame) -> str | None:
    """What in a table of requests, or of memory samples, no measurement gives."""
    times = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    sizes = [name for name in frame.columns if name.endswith("_bytes")]
    possible = {f"{name} is no time that passes": pl.col(name).is_between(_least(name), LONGEST_S) for name in times}
    possible |= {f"{name} is no size": pl.col(name).is_between(0, LARGEST) for name in sizes}
    if "step_s" in frame.columns:
        steps = pl.col("step_s").list.eval(pl.element().is_between(SHORTEST_S, LONGEST_S).fill_null(value=False))
        possible["step_s is no time that passes"] = steps.list.all()
        possible["started_at is no date"] = pl.col("started_at").is_between(FIRST_DAY, LAST_DAY)
        possible["a finished request has no e2e_s"] = (pl.col("status") != "ok") | pl.col("e2e_s").is_not_null()
        for name, known in (("status", tuple(STATUSES)), ("phase", PHASES)):
            possible[f"{name} is none of {', '.join(known)}"] = pl.col(name).is_in(known).fill_null(value=False)
    found = frame.select(is_so.all().alias(text) for text, is_so in possible.items()).row(0, named=True)
    return next((text for text, is_so in found.items() if not is_so), None)


def _least(name: str) -> pl.Expr:
    """The shortest that a time may be: a request may be stopped, and a pause or one token's decoding be over, before
    the clock moves.
    """
    stopped = pl.col("lower_bound").fill_null(value=False) if name == "e2e_s" else pl.lit(name not in _PASSES)
    return pl.when(stopped).then(0.0).otherwise(SHORTEST_S)
