"""The paper's claims: what the paper says, and what was found here, gaps and all."""

from collections import Counter, defaultdict
from typing import Any

import polars as pl

from speedbump.report.charts import Drawing, Rows
from speedbump.report.curves import place_words
from speedbump.report.published import CITATION, Published
from speedbump.report.section import Section, Table
from speedbump.report.study import Study
from speedbump.report.words import digits, listing, plural

ICONS = {
    "holds": "smooth",
    "differs": "slow",
    "can't tell": "unsure",
    "not measured": "none",
    "stated, not tabulated": "none",
}
DECIDED = ("holds", "differs")
ANSWERS = (*DECIDED, "can't tell")
UNITS = {"x": "×", "count": "", "qualitative": ""}

Place = tuple[str, str]
"""Machine and stack."""


def places(claims: pl.DataFrame) -> dict[Place, str]:
    """Where at least one claim was answered by measurements, the most decided first, each with its name; it has none
    where nothing else was measured.
    """
    measured = claims.filter(origin="measured")
    answered = measured.filter(pl.col("outcome").is_in(ANSWERS))
    counts = Counter(answered.select("machine", "stack").iter_rows())
    decided = Counter(answered.filter(pl.col("outcome").is_in(DECIDED)).select("machine", "stack").iter_rows())
    found = sorted(counts, key=lambda place: (-decided[place], -counts[place], place))
    words = place_words(measured.select("machine", "stack").unique().to_dicts())
    return {place: ", ".join(words[place]) for place in found}


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Nothing: claims are a table."""
    return Drawing([], {})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """The score and every claim, or what would fill it."""
    answered = places(study.claims)
    if not answered:
        count = plural(published.claims.height, "published claim")
        command = "snakemake --cores 1 --configfile config/paper.yaml"
        empty = f"Filled by the paper’s grid, which checks {count}: {command}."
        return Section("claims", "Claims", "The paper’s claims", empty=empty)
    return Section(
        anchor="claims",
        nav="Claims",
        finding=claims_finding(study.claims, answered),
        lead=f"What the paper says ({CITATION}), the same rule on its own published figures, and on what was measured "
        "here. Published values were measured by its author on other machines.",
        caption="“Stated, not tabulated”: the paper says it, but its tables hold no number to check it by.",
        table=_table(study.claims, answered),
        open=True,
        file="claims",
    )


def claims_finding(claims: pl.DataFrame, answered: dict[Place, str]) -> str:
    """The title: how many claims hold, differ, cannot be told and were not measured at the first place."""
    (machine, stack), name = next(iter(answered.items()))
    here = claims.filter(origin="measured", machine=machine, stack=stack)
    counts = Counter(here["outcome"].to_list())
    holds = counts["holds"]
    words = {
        "differs": ("differs", "differ"),
        "can't tell": ("cannot be told", "cannot be told"),
        "not measured": ("was not measured", "were not measured"),
        "stated, not tabulated": ("has no number to check", "have no number to check"),
    }
    rest = [f"{counts[outcome]} {pair[counts[outcome] > 1]}" for outcome, pair in words.items() if counts[outcome]]
    where, there = (f"on {name}", " there") if name else ("here", "")
    verb = "holds" if holds == 1 else "hold"
    first = f"{holds or 'None'} of {plural(here.height, 'claim')} of the paper {verb} {where}"
    return f"{first}; {listing(rest)}{there}" if rest else first


def _table(claims: pl.DataFrame, answered: dict[Place, str]) -> Table:
    """Claim by claim, where it was answered; one that was answered nowhere has one row."""
    own = {row["claim_id"]: row["outcome"] for row in claims.filter(origin="published").to_dicts()}
    measured: dict[str, dict[Place, dict[str, Any]]] = defaultdict(dict)
    for row in claims.filter(origin="measured").to_dicts():
        measured[row["claim_id"]][row["machine"], row["stack"]] = row
    several = any(answered.values())
    rows = []
    for claim, found in measured.items():
        known = [place for place in answered if place in found]
        shown = [place for place in known if found[place]["outcome"] in ANSWERS]
        for place in shown or known[:1]:
            row = found[place]
            rows.append(
                (
                    f"{claim}. {row['claim']}",
                    *([answered[place] if place in shown else ""] if several else []),
                    _with_unit(row["paper_value"], row["unit"]),
                    own.get(claim, ""),
                    _value(row),
                    row["outcome"],
                    row["why"] or "",
                )
            )
    columns = ("Claim", *(["Where"] if several else []), "Paper", "Paper’s own figures", "Here", "Outcome", "Why")
    return Table(columns, rows, icons=ICONS)


def _value(row: dict[str, object]) -> str:
    if row["value"] is None:
        return ""
    text = _with_unit(str(row["value"]), str(row["unit"]))
    low, high = row["low"], row["high"]
    if isinstance(low, float) and isinstance(high, float):
        return f"{text} ({digits(low)}–{digits(high)})"
    return text


def _with_unit(value: str, unit: str) -> str:
    """``21.1×``, ``512-624 tokens``, ``2 of 2``."""
    sign = UNITS.get(unit, f" {unit}")
    return f"{value}{sign}"
