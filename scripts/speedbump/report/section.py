"""A section of the page: its finding, its pictures and its table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from speedbump.report.curves import Curve

MOST_ROWS = 500
"""A longer table slows the page down and is read by nobody there."""


@dataclass(frozen=True)
class Table:
    """Values behind a picture.

    numeric: names of the columns that are set flush right.  icons: for cells of these words, a class of icon.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: frozenset[str] = frozenset()
    caption: str = ""
    icons: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> Sequence[Sequence[Any]]:
        """The rows that the page holds; the data file holds all."""
        return self.rows[:MOST_ROWS]

    @property
    def note(self) -> str:
        """The caption, and how many rows are left to the data file."""
        left = len(self.rows) - len(self.shown)
        more = f"{left:,} more rows are in the data file." if left > 0 else ""
        return " ".join(part for part in (self.caption, more) if part)


Key = Sequence[tuple[str, str]]
"""Symbols, as classes of the style sheet, and what they mean."""

NEEDS = {"slow": "slow", "off": "unclear", "triangle": "bound", "dots": "noticed"}


def relevant(key: Key, curves: Iterable[Curve]) -> Key:
    """The symbols that the curves' pictures hold: none of slow regimes, doubt or bounds where there is none."""
    present: set[str] = set()
    for curve in curves:
        present.update(curve.budgets["state"].unique())
        present.update(["noticed"] if curve.budgets["noticed"].is_not_null().any() else [])
        present.update(["bound"] if curve.budgets["lower_bound"].any() else [])
    absent = {symbol for symbol, needed in NEEDS.items() if needed not in present}
    return [(symbol, meaning) for symbol, meaning in key if not absent & set(symbol.split())]


@dataclass(frozen=True)
class Figure:
    """Charts that belong together, with a heading of their own when the section has several."""

    charts: Sequence[str]
    heading: str = ""
    note: str = ""
    curves: Sequence[str] = ()
    """Keys of the curves in it, so that a filter can hide it."""


@dataclass(frozen=True)
class Section:
    """One section. ``empty`` says in one line what would fill it; then nothing else is shown."""

    anchor: str
    nav: str
    finding: str
    lead: str = ""
    key: Key = ()
    figures: Sequence[Figure] = ()
    small: Sequence[Figure] = ()
    """Figures of the curves that there is no room to show large."""
    caption: str = ""
    table: Table | None = None
    open: bool = False
    """Whether the table is what the section shows, and not only the values behind a picture."""
    folded: Sequence[tuple[str, Table]] = ()
    """Further tables, each behind the line that says what it holds."""
    file: str = ""
    """The data file that holds the table's values in full, without its suffix."""
    empty: str = ""
