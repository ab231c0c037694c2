"""A section of the page: its finding, its pictures and its table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MOST_ROWS = 500
"""A longer table slows the page down and is read by nobody there."""


@dataclass(frozen=True)
class Table:
    """Values behind a picture. ``numeric``: names of the columns that are set flush right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: frozenset[str] = frozenset()
    caption: str = ""

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
    key: Sequence[tuple[str, str]] = ()
    """Symbols (a class of the style sheet) and what they mean."""
    figures: Sequence[Figure] = ()
    small: Sequence[Figure] = ()
    """Figures of the curves that there is no room to show large."""
    caption: str = ""
    table: Table | None = None
    file: str = ""
    """The data file that holds the table's values in full, without its suffix."""
    empty: str = ""
