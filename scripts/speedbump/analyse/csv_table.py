"""A table of latencies that somebody already has, as CSV: requests, or published means."""

import csv
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speedbump.analyse.curve import LONGEST, LONGEST_S, SHORTEST_S, Curve, from_published
from speedbump.analyse.regimes import Findings, findings_of_curves

REQUEST_COLUMNS = ("n_gen", "e2e_s")
PUBLISHED_COLUMNS = ("n_gen", "e2e_s_mean")
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no", "")


class CsvError(Exception):
    """A file is not such a table; the message names file, line and column."""


@dataclass(frozen=True)
class _Line:
    """A line of the file, with where it stands."""

    path: Path
    number: int
    values: dict[str, str | None]

    def wrong(self, column: str, problem: str) -> CsvError:
        return CsvError(f"{self.path}, line {self.number}, column {column}: {problem}")

    def number_in(self, column: str, least: float, most: float, kind: Callable[[str], float] = float) -> float:
        """A number from ``least`` to ``most``."""
        text = (self.values.get(column) or "").strip()
        name = "a whole number" if kind is int else "a number"
        try:
            value = kind(text)
        except ValueError:
            raise self.wrong(column, f"{text!r} is not {name}" if text else f"empty, expected {name}") from None
        if not least <= value <= most:
            raise self.wrong(column, f"{text[:30]} is not from {least:g} to {most:,.12g}")
        return value

    def flag_in(self, column: str) -> bool:
        text = (self.values.get(column) or "").strip().lower()
        if text not in (*_TRUE, *_FALSE):
            raise self.wrong(column, f"{text!r} is neither true nor false")
        return text in _TRUE


def findings_of_csv(path: Path) -> Findings:
    """Findings on every series of a CSV.

    One row a request (series, n_gen, e2e_s; optional process, lower_bound), or one row a budget of a published
    table (series, n_gen, e2e_s_mean; optional e2e_s_sd, a sample standard deviation, and n, 5 if left out).
    Raises CsvError for a file that is neither.
    """
    return findings_of_curves(read_csv_curves(path))


def read_csv_curves(path: Path) -> dict[str, Curve]:
    """The curve of every series of a CSV, in the order of their first lines. Raises CsvError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            header = tuple(name.strip() for name in reader.fieldnames or ())
            reader.fieldnames = header
            lines = [_Line(path, reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CsvError(f"{path}: cannot be read as CSV: {error}") from error
    if set(REQUEST_COLUMNS) <= set(header):
        read = _request_curve
    elif set(PUBLISHED_COLUMNS) <= set(header):
        read = _published_curve
    else:
        wanted = f"{', '.join(REQUEST_COLUMNS)} or {', '.join(PUBLISHED_COLUMNS)}"
        raise CsvError(f"{path}, line 1: needs the columns {wanted}; found {', '.join(header) or 'none'}")
    if not lines:
        raise CsvError(f"{path}, line 2: no rows below the header")
    grouped: dict[str, list[_Line]] = {}
    for line in lines:
        if None in line.values:
            raise CsvError(f"{path}, line {line.number}: more values than the {len(header)} columns of the header")
        grouped.setdefault((line.values.get("series") or "").strip() or path.stem, []).append(line)
    return {series: read(own) for series, own in grouped.items()}


def _by_budget(lines: list[_Line]) -> Iterator[tuple[int, list[_Line]]]:
    grouped: dict[int, list[_Line]] = {}
    for line in lines:
        grouped.setdefault(int(line.number_in("n_gen", 1, LONGEST, int)), []).append(line)
    yield from sorted(grouped.items())


def _request_curve(lines: list[_Line]) -> Curve:
    budgets, repeats, bounds, counts, stops = [], [], [], [], []
    for budget, own in _by_budget(lines):
        processes: dict[str, list[float]] = {}
        stopped: dict[str, list[float]] = {}
        for line in own:
            log_s = math.log(line.number_in("e2e_s", SHORTEST_S, LONGEST_S))
            kind = stopped if line.flag_in("lower_bound") else processes
            kind.setdefault((line.values.get("process") or "").strip(), []).append(log_s)
        budgets.append(float(budget))
        repeats.append(tuple(np.sort(values) for values in processes.values()))
        stops.append(np.array([max(own) for process, own in stopped.items() if process not in processes]))
        bounds.append(math.nan if processes else float(stops[-1].max()))
        counts.append(0 if processes else sum(map(len, stopped.values())))
    disturbed = np.zeros(len(budgets), bool)
    bound, n_stopped = np.array(bounds), np.array(counts)
    return Curve(np.array(budgets), tuple(repeats), bound, n_stopped, tuple(stops), disturbed)


def _published_curve(lines: list[_Line]) -> Curve:
    budgets, means, sds, counts = [], [], [], []
    for budget, own in _by_budget(lines):
        if len(own) > 1:
            raise own[1].wrong("n_gen", f"{budget} stands on line {own[0].number} already")
        line = own[0]
        budgets.append(float(budget))
        means.append(line.number_in("e2e_s_mean", SHORTEST_S, LONGEST_S))
        has_sd = bool((line.values.get("e2e_s_sd") or "").strip())
        sds.append(line.number_in("e2e_s_sd", 0, LONGEST_S) if has_sd else math.nan)
        has_n = bool((line.values.get("n") or "").strip())
        counts.append(line.number_in("n", 1, LONGEST, int) if has_n else 5.0)
    return from_published(*(np.array(column, float) for column in (budgets, means, sds, counts)))
