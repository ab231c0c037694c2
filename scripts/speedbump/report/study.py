"""A study's tables and what is said about it, as the report reads them from one folder."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from speedbump.analyse.workload import Workload, read_workload
from speedbump.report.curves import Curve, make_curves
from speedbump.tables import (
    BUDGET_CHANGES,
    BUDGETS,
    CELLS,
    CLAIMS,
    COMPARISONS,
    FAULTS,
    GROWTH,
    HYPOTHESES,
    MITIGATIONS,
    PREDICTIONS,
    PROFILES,
    REGIME_CHANGES,
    REGIMES,
    REQUESTS,
    SERIES,
    SERIES_CHANGES,
    Table,
    TableError,
    read_table,
)

Json = TypeVar("Json", dict[str, Any], list[Any])

JUDGED = (HYPOTHESES, GROWTH, MITIGATIONS, PREDICTIONS)
OPTIONAL = (PROFILES, COMPARISONS, SERIES_CHANGES, REGIME_CHANGES, BUDGET_CHANGES, CLAIMS, *JUDGED)
"""Tables that a folder may lack; they are then empty."""
TABLES = (REQUESTS, CELLS, FAULTS, BUDGETS, SERIES, REGIMES, *OPTIONAL)


@dataclass(frozen=True)
class Progress:
    """How much of what the study asks for is measured."""

    cells: int
    done: int

    @property
    def left(self) -> int:
        return max(0, self.cells - self.done)


@dataclass(frozen=True)
class Study:
    """All that the report knows. Tables as in ``speedbump.tables``; ``about`` is study.json."""

    requests: pl.DataFrame
    profiles: pl.DataFrame
    cells: pl.DataFrame
    faults: pl.DataFrame
    budgets: pl.DataFrame
    series: pl.DataFrame
    regimes: pl.DataFrame
    comparisons: pl.DataFrame
    series_changes: pl.DataFrame
    regime_changes: pl.DataFrame
    budget_changes: pl.DataFrame
    claims: pl.DataFrame
    hypotheses: pl.DataFrame
    growth: pl.DataFrame
    mitigations: pl.DataFrame
    predictions: pl.DataFrame
    about: dict[str, Any]
    environments: list[dict[str, Any]] = field(default_factory=list)
    """Dicts of machine, stack and environment, as in environment.json."""
    workload: Workload | None = None
    """The lengths an application really uses, where the folder has a workload.csv."""

    @cached_property
    def curves(self) -> list[Curve]:
        """Every curve, those with the worst slow-down first."""
        return make_curves(self.series, self.regimes, self.budgets, self.model_title, self.about.get("fits"))

    @cached_property
    def compared(self) -> dict[tuple[str, str], list[dict[str, Any]]]:
        """Rows of the comparisons by the two series, the one above the line first; lengths increase."""
        rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in self.comparisons.sort("n_gen").iter_rows(named=True):
            rows.setdefault((row["over"], row["under"]), []).append(row)
        return rows

    @property
    def name(self) -> str:
        return str(self.about["name"])

    @property
    def title(self) -> str:
        return str(self.about.get("title") or self.name)

    @property
    def partial(self) -> bool:
        return bool(self.about.get("partial"))

    @property
    def compare_with_paper(self) -> bool:
        """Whether the paper's published curves stand beside these."""
        return bool(self.about.get("compare_with_paper"))

    @cached_property
    def progress(self) -> Progress:
        return Progress(self.about["runs"]["planned"], self.about["runs"]["done"])

    def model_title(self, model: str) -> str:
        return str((self.about.get("model_titles") or {}).get(model) or model)

    def environment(self, machine: str, stack: str) -> dict[str, Any]:
        """The environment of a stack on a machine; empty when it is not recorded."""
        for entry in self.environments:
            if entry["machine"] == machine and entry["stack"] == stack:
                return dict(entry["environment"])
        return {}


def read_study(folder: str | Path) -> Study:
    """Read a study's folder. Raises TableError, WorkloadError or OSError naming the file that is missing or wrong."""
    folder = Path(folder)
    tables = {table.name: _read(folder / f"{table.name}.parquet", table) for table in TABLES}
    about = _read_json(folder / "study.json", dict)
    missing = {"name", "runs"} - about.keys()
    if missing:
        raise TableError(f"{folder / 'study.json'}: lacks {', '.join(sorted(missing))}")
    environments = _read_json(folder / "environment.json", list)
    lengths = folder / "workload.csv"
    workload = read_workload(lengths) if about.get("workload") else None
    return Study(**tables, about=about, environments=environments, workload=workload)


def _read_json(file: Path, kind: type[Json]) -> Json:
    """What a JSON file holds. Raises TableError unless it is of that kind."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TableError(f"{file}: is not JSON: {error}") from None
    if not isinstance(content, kind):
        raise TableError(f"{file}: holds no {'object' if kind is dict else 'list'}")
    return content


def _read(path: Path, table: Table) -> pl.DataFrame:
    if table in OPTIONAL and not path.exists():
        return pl.DataFrame(schema=table.schema)
    return read_table(path, table)
