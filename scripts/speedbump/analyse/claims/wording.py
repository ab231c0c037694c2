"""The table of claims as text for a terminal."""

import textwrap
from typing import Any

import polars as pl

from speedbump.analyse.claims.answer import digits

WIDTH = 110


def as_text(claims: pl.DataFrame) -> str:
    """A paragraph a claim and body of evidence: outcome, value beside the paper's, why, rule."""
    parts = []
    for (origin, machine, stack), own in claims.group_by("origin", "machine", "stack", maintain_order=True):
        parts.append(f"On the {origin} figures" if machine is None else f"{machine}, {stack}")
        parts += [_paragraph(row) for row in own.iter_rows(named=True)]
    return "\n\n".join(parts)


def _paragraph(row: dict[str, Any]) -> str:
    value = "no value" if row["value"] is None else f"{row['value']} {row['unit']}"
    if row["low"] is not None:
        high = "" if row["high"] is None else f" to {digits(row['high'])}"
        value += f" (95 % from {digits(row['low'])}{high})"
    head = f"{row['claim_id']}  {row['claim']}: {row['outcome'].upper()}"
    lines = [f"{value}; in the paper {row['paper_value']} {row['unit']}", row["why"], f"Rule: {row['rule']}"]
    return "\n".join(
        [head, *(textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines)]
    )
