"""Write docs/tables.md, the description of every table, from the tables themselves."""

import argparse
import sys
from pathlib import Path

from speedbump.tables import STATUSES, TABLES, Table

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"


def describe(table: Table) -> str:
    rows = [f"| `{c.name}` | {c.dtype} | {c.unit} | {c.meaning} |" for c in table.columns]
    return "\n".join([f"## {table.name}", "", "| column | type | unit | meaning |", "|---|---|---|---|", *rows, ""])


def page() -> str:
    statuses = [f"| `{status}` | {meaning} |" for status, meaning in STATUSES.items()]
    return "\n".join(
        [
            "# Tables",
            "",
            "Written by `python scripts/document_tables.py` from `scripts/speedbump/tables.py`.",
            "Every file is Parquet; units stand in the names.",
            "",
            *(describe(table) for table in TABLES),
            "## Status of a request",
            "",
            "| status | meaning |",
            "|---|---|",
            *statuses,
            "",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 where the page is out of date"
    )
    if not parser.parse_args().check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        print(f"{PAGE}: out of date", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
