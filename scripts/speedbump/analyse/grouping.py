"""Series of a table of requests: never several things in one."""

from collections.abc import Sequence

import polars as pl

from speedbump.tables import REQUESTS, SERIES, TableError

_TELLING = tuple(name for name in SERIES.schema if name in REQUESTS.schema and name != "series")
"""What all requests of a series share: machine, stack, and every axis but the budget and the process."""


def grouped_by(requests: pl.DataFrame, columns: Sequence[str], where: str) -> pl.DataFrame:
    """The requests with series told apart by these columns as well. Raises TableError naming ``where``."""
    if unknown := [name for name in columns if name not in _TELLING]:
        raise TableError(f"{where}: no column {unknown[0]} to group by; there are {', '.join(_TELLING)}")
    parts = [pl.format(f"{name} {{}}", pl.col(name)) for name in columns]
    return requests.with_columns(series=pl.concat_str("series", *parts, separator=", ", ignore_nulls=True))


def check_series(requests: pl.DataFrame, where: str) -> None:
    """Raises TableError, naming ``where`` and the column, where a series has several values of what it should share."""
    counts = requests.group_by("series", maintain_order=True).agg(pl.col(_TELLING).n_unique())
    for series, *numbers in counts.iter_rows():
        for name, number in zip(_TELLING, numbers, strict=True):
            if number > 1:
                raise TableError(
                    f"{where}, column {name}: {number} values within the series {series}: "
                    f"to make each a series of its own, --group {name}"
                )
