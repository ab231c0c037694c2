"""The paper's claims: what the paper says, and what was found here, gaps and all."""

from collections import Counter

import polars as pl

from speedbump.report.charts import Drawing, Rows
from speedbump.report.curves import stack_titles
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
ANSWERS = ("holds", "differs", "can't tell")
UNITS = {"x": "×", "count": "", "qualitative": ""}

Place = tuple[str, str]
"""Machine and stack."""


def places(claims: pl.DataFrame) -> list[Place]:
    """Where at least one claim was answered by measurements, the most answers first."""
    answered = claims.filter((pl.col("origin") == "measured") & pl.col("outcome").is_in(ANSWERS))
    counts = Counter(answered.select("machine", "stack").iter_rows())
    return sorted(counts, key=lambda place: (-counts[place], place))


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
        finding=claims_finding(study.claims, answered[0]),
        lead=f"What the paper says ({CITATION}), the same rule on its own published figures, and on what was measured "
        "here. Published values were measured by its author on other machines.",
        caption="“Stated, not tabulated”: the paper says it, but its tables hold no number to check it by.",
        table=_table(study.claims, answered),
        open=True,
        file="claims",
    )


def claims_finding(claims: pl.DataFrame, place: Place) -> str:
    """The title: how many claims hold, differ, cannot be told and were not measured at one place."""
    machine, stack = place
    here = claims.filter((pl.col("origin") == "measured") & (pl.col("machine") == machine) & (pl.col("stack") == stack))
    counts = Counter(here["outcome"].to_list())
    holds = counts["holds"]
    words = {
        "differs": ("differs", "differ"),
        "can't tell": ("cannot be told", "cannot be told"),
        "not measured": ("was not measured", "were not measured"),
        "stated, not tabulated": ("has no number to check", "have no number to check"),
    }
    rest = [f"{counts[outcome]} {pair[counts[outcome] > 1]}" for outcome, pair in words.items() if counts[outcome]]
    first = f"{holds or 'None'} of {plural(here.height, 'claim')} of the paper {'holds' if holds == 1 else 'hold'} here"
    return f"{first}; {listing(rest)}" if rest else first


def _table(claims: pl.DataFrame, answered: list[Place]) -> Table:
    titles = stack_titles({stack for _, stack in answered})
    own = {row["claim_id"]: row["outcome"] for row in claims.filter(pl.col("origin") == "published").to_dicts()}
    rows = []
    for place in answered:
        machine, stack = place
        name = titles[stack] if len({one for one, _ in answered}) == 1 else f"{machine}, {titles[stack]}"
        here = claims.filter((pl.col("machine") == machine) & (pl.col("stack") == stack))
        rows += [
            (
                f"{row['claim_id']}. {row['claim']}",
                *([name] if len(answered) > 1 else []),
                _with_unit(row["paper_value"], row["unit"]),
                own.get(row["claim_id"], ""),
                _value(row),
                row["outcome"],
                row["why"] or "",
            )
            for row in here.to_dicts()
        ]
    where = ["Where"] if len(answered) > 1 else []
    columns = ("Claim", *where, "Paper", "Paper’s own figures", "Here", "Outcome", "Why")
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
