"""Whether a run's rows are those of the cell that its name, its place and its record tell of."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from speedbump.analyse.curve import LONGEST, LONGEST_S, SHORTEST_S
from speedbump.grid.axes import AXES, PROTOCOL_FIELDS
from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.tables import PHASES, REQUESTS, STATUSES

_SHARED = tuple(axis.name for axis in AXES if axis.name != "n_gen")
"""Axes that all requests of a run share; a persistent process goes through several budgets."""

FIRST_DAY, LAST_DAY = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""Dates that can be written; a machine whose clock has stopped says the first."""
_LAST_S = LAST_DAY.timestamp()
_PASSES = ("ttft_s", "e2e_s", *(column for column in REQUESTS.schema if "sentinel_" in column))
"""Times in which work is done."""
LARGEST = 1 << 60
"""Bytes, or any other whole number that is said of a machine."""
_OWNER = ("series", "cell", "machine", "stack")
FILE = "file"
"""Column that says from which file a row comes, where several were read at once."""
_BUDGETS = "budgets"


class ContradictionError(Exception):
    """A run cannot be used: the kind of problem, and a line that says what is wrong."""

    def __init__(self, problem: str, message: str) -> None:
        super().__init__(problem, message)
        self.problem, self.message = problem, message


@dataclass(frozen=True)
class Expected:
    """What a run's rows must hold. row: what they share.  budgets: among which their ``n_gen`` is."""

    file: Path
    row: dict[str, Any]
    budgets: set[int]


def expect(file: Path, record: Any) -> Expected:
    """What the rows of a run's file must hold by its record. Raises ContradictionError."""
    try:
        cell, place = record["cell"], (record["machine"], record["stack"])
        expected, series, axes = cell_id(cell), series_id(cell, *place), axes_of(cell)
        budgets = set(cell.get("sequence") or [axes["n_gen"]])
        protocol = {name: cell[name] for name in PROTOCOL_FIELDS}
        _Record.model_validate(record)
    except ValidationError as error:
        first = error.errors()[0]
        raise ContradictionError("unreadable", f"{file}: record: {first['loc'][0]}: {first['msg']}") from None
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ContradictionError("unreadable", f"{file}: has no record of what was measured") from None
    if expected != file.stem:
        held = f"{file}: holds the parameters of {expected}, protocol {cell.get('protocol')}"
        raise ContradictionError("wrong parameters", held)
    if place != (file.parts[-3], file.parts[-2]):
        raise ContradictionError("wrong parameters", f"{file}: was measured on {place[0]} with {place[1]}")
    if not all(isinstance(budget, int) and 1 <= budget <= LONGEST for budget in budgets):
        raise ContradictionError("unreadable", f"{file}: a budget is not from 1 to {LONGEST} tokens")
    shared = {name: axes[name] for name in _SHARED}
    owner = dict(zip(_OWNER, (series, file.stem, *place), strict=True))
    return Expected(file, {**shared, **protocol, **owner}, budgets)


def check_rows(frame: pl.DataFrame, beside: Sequence[pl.DataFrame], expected: Expected) -> None:
    """Whether a run's requests, and its tables beside them, are those of its cell. Raises ContradictionError."""
    file = expected.file
    if frame.select(list(expected.row)).unique().to_dicts() != [expected.row]:
        raise ContradictionError("unreadable", f"{file}: its rows are not those of its cell")
    if not {n_gen for rows in (frame, *beside) for n_gen in rows["n_gen"]} <= expected.budgets:
        raise ContradictionError("unreadable", f"{file}: its rows have budgets that its cell has not")
    wrong = next((text for rows in (frame, *beside) if (text := _impossible(rows))), None)
    if wrong:
        raise ContradictionError("unreadable", f"{file}: {wrong}")


def are_sound(frame: pl.DataFrame, beside: Sequence[pl.DataFrame], expected: Sequence[Expected]) -> bool:
    """Whether ``check_rows`` would find nothing in any of many runs, asked at once.

    frame, beside: the rows of all, which say their run's file in the column FILE.
    """
    try:
        rows = [{**one.row, FILE: str(one.file), _BUDGETS: sorted(one.budgets)} for one in expected]
        schema = {name: REQUESTS.schema[name] for name in expected[0].row}
        table = pl.DataFrame(rows, schema={**schema, FILE: pl.String, _BUDGETS: pl.List(pl.Int64)}, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return False
    return (
        frame[FILE].n_unique() == len(expected)
        and _agree(frame, table, list(schema))
        and all(_agree(rows, table, list(_OWNER)) for rows in beside)
        and all(_impossible(rows.drop(FILE)) is None for rows in (frame, *beside))
    )


def _agree(frame: pl.DataFrame, table: pl.DataFrame, columns: list[str]) -> bool:
    """Whether every row's columns are those expected of its file, and its budget one of the file's."""
    joined = frame.select(FILE, "n_gen", *columns).join(
        table.select(FILE, _BUDGETS, pl.col(columns).name.suffix(" expected")), on=FILE, how="left"
    )
    same = [pl.col(name).eq_missing(pl.col(f"{name} expected")) for name in columns]
    known = pl.col("n_gen").is_in(pl.col(_BUDGETS)).fill_null(value=False)
    return bool(joined.select(pl.all_horizontal(*same, known).all()).item())


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


def _impossible(frame: pl.DataFrame) -> str | None:
    """What in a table of requests, or of what lies beside them, no measurement gives."""
    times = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    sizes = [name for name in frame.columns if name.endswith("_bytes")]
    possible = {f"{name} is no time that passes": pl.col(name).is_between(_least(name), LONGEST_S) for name in times}
    possible |= {f"{name} is no size": pl.col(name).is_between(0, LARGEST) for name in sizes}
    if "step_s" in frame.columns:
        steps = pl.col("step_s").list.eval(pl.element().is_between(SHORTEST_S, LONGEST_S).fill_null(value=False))
        possible["step_s is no time that passes"] = steps.list.all()
        possible["started_at is no date"] = pl.col("started_at").is_between(FIRST_DAY, LAST_DAY)
        possible["a request is there twice"] = pl.struct("machine", "stack", "cell", "request").is_unique()
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
