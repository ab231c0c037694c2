"""A table of latencies that somebody already has, as CSV: requests, or published means.

Series are never mixed: a column that has several values within one series is an error unless it is named, to split by
it or to leave it aside.
"""

import csv
import difflib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speedbump.analyse.curve import LONGEST, LONGEST_S, SHORTEST_S, Curve, from_published
from speedbump.analyse.regimes import Findings, findings_of_curves
from speedbump.grid.axes import AXES, NOT_IN_SERIES

REQUEST_COLUMNS = ("n_gen", "e2e_s")
PUBLISHED_COLUMNS = ("n_gen", "e2e_s_mean")
OPTIONAL_COLUMNS = {
    REQUEST_COLUMNS: ("series", "process", "lower_bound"),
    PUBLISHED_COLUMNS: ("series", "e2e_s_sd", "n"),
}
TELLING = (
    *(axis.name for axis in AXES if axis.name not in NOT_IN_SERIES),
    *("machine", "stack", "gpu", "backend", "quantization", "precision", "batch_size", "threads", "n_threads"),
    *("prompt_tokens", "n_depth", "context", "concurrency", "version", "engine", "phase"),
)
"""Columns that tell series apart, numbers too. Of any other a series may have several numbers, for it may be measured,
but not several words."""
LEAST_COUNT, LEAST_COUNT_WITH_SD = 1.0, 2.0
"""What a mean counts as whose number of requests is not known: the least that it can be."""
MOST_QUOTED = 80
"""Characters of a file that a message repeats."""
_MISSPELT = 0.8
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

    def number_in(self, column: str, least: float, most: float, kind: type = float) -> float:
        """A number from ``least`` to ``most``."""
        text = (self.values.get(column) or "").strip()
        name = "a whole number" if kind is int else "a number"
        try:
            value = float(text)
            if kind is int and not value.is_integer() and math.isfinite(value):
                raise ValueError
        except ValueError:
            raise self.wrong(column, f"{quoted(text)} is not {name}" if text else f"empty, expected {name}") from None
        if not least <= value <= most:
            raise self.wrong(column, f"{text[:30]} is not from {least:g} to {most:,.12g}")
        return value

    def flag_in(self, column: str) -> bool:
        text = (self.values.get(column) or "").strip().lower()
        if text not in (*_TRUE, *_FALSE):
            raise self.wrong(column, f"{quoted(text)} is neither true nor false")
        return text in _TRUE


def quoted(text: str) -> str:
    """What stands in a file, in quotes and not too long."""
    return repr(text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 3]}...")


def findings_of_csv(path: Path, group: Sequence[str] = (), ignore: Sequence[str] = ()) -> Findings:
    """Findings on every series of a CSV.

    One row a request (series, n_gen, e2e_s; optional process, lower_bound), or one row a budget of a published
    table (series, n_gen, e2e_s_mean; optional e2e_s_sd, a sample standard deviation, and n). group: further columns
    that tell series apart.  ignore: columns that may differ within one. Raises CsvError for a file that is neither, or
    whose series are mixed.
    """
    return findings_of_curves(read_csv_curves(path, group, ignore))


def read_csv_curves(path: Path, group: Sequence[str] = (), ignore: Sequence[str] = ()) -> dict[str, Curve]:
    """The curve of every series of a CSV, in the order of their first lines. Raises CsvError."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            header = _header(path, reader.fieldnames or (), ignore)
            reader.fieldnames = header
            lines = [_Line(path, reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CsvError(f"{path}: cannot be read as CSV: {error}") from error
    read = _request_curve if _is_of_requests(header) else _published_curve
    if missing := [name for name in group if name not in header]:
        raise CsvError(f"{path}, line 1: no column {missing[0]} to group by; found {_found(header)}")
    if not lines:
        raise CsvError(f"{path}, line 2: no rows below the header")
    grouped: dict[str, list[_Line]] = {}
    for line in lines:
        if None in line.values:
            raise CsvError(f"{path}, line {line.number}: more values than the {len(header)} columns of the header")
        grouped.setdefault(_series_of(line, group), []).append(line)
    own = REQUEST_COLUMNS if _is_of_requests(header) else PUBLISHED_COLUMNS
    known = {*own, *OPTIONAL_COLUMNS[own], *group, *ignore}
    for series, of_series in grouped.items():
        _check_alike(series, of_series, [name for name in header if name not in known])
    return {series: read(of_series) for series, of_series in grouped.items()}


def _header(path: Path, names: Sequence[str], ignore: Sequence[str]) -> tuple[str, ...]:
    """The columns' names, those that are known in the case they are known in. Raises CsvError where one stands twice,
    one of the table's own is missing, or an optional one is misspelt.
    """
    every = {*REQUEST_COLUMNS, *PUBLISHED_COLUMNS, *TELLING, *(n for names in OPTIONAL_COLUMNS.values() for n in names)}
    header = tuple(name.strip() if name.strip().lower() not in every else name.strip().lower() for name in names)
    if doubled := next((name for name in header if name and header.count(name) > 1), None):
        raise CsvError(f"{path}, line 1: column {doubled} stands there twice")
    own = REQUEST_COLUMNS if _is_of_requests(header) else PUBLISHED_COLUMNS
    if not set(own) <= set(header):
        wanted = f"{', '.join(REQUEST_COLUMNS)} or {', '.join(PUBLISHED_COLUMNS)}"
        raise CsvError(f"{path}, line 1: needs the columns {wanted}; found {_found(header) or 'none'}")
    absent = [name for name in OPTIONAL_COLUMNS[own] if name not in header]
    for name in header:
        close = difflib.get_close_matches(name.lower(), absent, n=1, cutoff=_MISSPELT)
        if close and name not in {*every, *ignore}:
            raise CsvError(
                f"{path}, line 1: column {quoted(name)} is not known: did you mean {close[0]}? If not: --ignore {name}"
            )
    return header


def _is_of_requests(header: Sequence[str]) -> bool:
    return set(REQUEST_COLUMNS) <= set(header)


def _found(header: Sequence[str]) -> str:
    text = ", ".join(header)
    return text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 3]}..."


def _series_of(line: _Line, group: Sequence[str]) -> str:
    """The series that a line belongs to: what its column says, else the file's name, and what it is grouped by."""
    own = (line.values.get("series") or "").strip() or line.path.stem
    return ", ".join([own, *(f"{name} {(line.values.get(name) or '').strip()}" for name in group)])


def _check_alike(series: str, lines: list[_Line], columns: Sequence[str]) -> None:
    """Raises CsvError where one of the columns tells several series apart that would be one."""
    for name in columns:
        values = list(dict.fromkeys((line.values.get(name) or "").strip() for line in lines))
        if len(values) < 2 or not (name in TELLING or _are_names(values, len(lines))):
            continue
        some = ", ".join(map(quoted, values[:2]))
        raise CsvError(
            f"{lines[0].path}, column {name}: {len(values)} values within the series {quoted(series)}, such as {some}: "
            f"to make each a series of its own, --group {name}; to take them as one, --ignore {name}"
        )


def _are_names(values: Sequence[str], n_lines: int) -> bool:
    """Whether values are words, some of them on several lines: a time of day, or a note, is on one."""
    return len(values) <= n_lines / 2 and not all(map(_is_number, values))


def _is_number(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


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
        least = LEAST_COUNT_WITH_SD if has_sd else LEAST_COUNT
        counts.append(line.number_in("n", 1, LONGEST, int) if has_n else least)
    return from_published(*(np.array(column, float) for column in (budgets, means, sds, counts)))
