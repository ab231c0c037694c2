"""The parts of docs/mechanism.md that are made by code: the table of rules, and how often the truth is named."""

import re
from collections.abc import Mapping
from pathlib import Path

from speedbump.analyse.mechanism.rules import PREDICTIONS, STATEMENTS


def rules_table() -> str:
    """Every prediction, as Markdown."""
    lines = ["| | it predicts | observable | agrees | contradicts | needed |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {p.hypothesis} | {p.words} | `{p.observable}` | {p.range.words} | {p.range.against or 'nothing'} "
        f"| {'yes' if p.needed else ''} |"
        for p in PREDICTIONS
    ]
    return "\n".join(lines) + "\n"


def statements() -> str:
    """Every hypothesis in a sentence, as Markdown."""
    return "\n".join(f"- **{name}** {statement}." for name, statement in STATEMENTS.items()) + "\n"


def write_parts(page: Path, parts: Mapping[str, str]) -> None:
    """Put each part between its markers, ``<!-- name -->`` and ``<!-- end of name -->``."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = replaced(text, name, part)
    page.write_text(text, encoding="utf-8")


def replaced(text: str, name: str, part: str) -> str:
    """The page's text with one part replaced. Raises ValueError when its markers are missing."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    found, count = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{part}{end}", text, count=1, flags=re.DOTALL
    )
    if not count:
        raise ValueError(f"the page has no part between {begin} and {end}")
    return found


def with_rows(tables: str, new: str) -> str:
    """The tables with those rows replaced that ``new`` has too, told by their first cell."""
    rows = {_first_cell(line): line for line in new.splitlines() if line.startswith("| ")}
    return "".join(rows.get(_first_cell(line), line.rstrip("\n")) + "\n" for line in tables.splitlines())


def _first_cell(line: str) -> str:
    return line.split("|")[1].strip() if line.startswith("| ") else line


def part_of(text: str, name: str) -> str:
    """What stands between a part's markers."""
    match = re.search(f"<!-- {re.escape(name)} -->\n(.*?)<!-- end of {re.escape(name)} -->", text, re.DOTALL)
    if match is None:
        raise ValueError(f"the page has no part {name}")
    return match[1]
