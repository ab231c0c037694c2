"""Why it is slow: a verdict on every hypothesis, and what it rests on."""

from collections import Counter
from collections.abc import Iterable

import polars as pl

from speedbump.analyse.mechanism.rules import CANNOT_TELL, CONTRADICTED, NOTHING, RULE, SUPPORTED, explaining
from speedbump.grid.stack import stack_order
from speedbump.report.charts import Drawing, Rows
from speedbump.report.curves import place_words, spoken
from speedbump.report.published import Published
from speedbump.report.section import Section, Table
from speedbump.report.study import Study
from speedbump.report.words import digits, gigabytes, listing, plural, prose, sentence

SHORT = {
    "H1": "the allocator’s pool outgrows the memory",
    "H1b": "a purge of that pool ends it",
    "H2": "first passes compile a graph for every shape",
    "H3": "the system swaps",
    "H4": "buffers lose their place while the device idles",
    "H5": "the clock drops with heat",
    "H6": "a slower kernel is selected at certain shapes",
    "H7": "the previous process is still alive",
}
ICONS = {SUPPORTED: "smooth", CONTRADICTED: "slow", CANNOT_TELL: "unsure", NOTHING: "none"}
OUTCOMES = {"agrees": "smooth", "disagrees": "slow", "can't tell": "unsure", "not tested": "none"}
COUNTERS = {
    "torch_current": "live tensors",
    "torch_driver": "driver memory",
    "rss": "resident memory",
    "footprint": "footprint",
    "system_used": "system memory",
    "swap_used": "swap",
}
EMPTY = Section(
    "mechanism",
    "Why",
    "Why it is slow",
    empty="Filled by a study with arms that differ from a plain curve in one thing, such as config/mechanism.yaml.",
)


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Nothing: verdicts are a table."""
    return Drawing([], {})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """The verdicts, every prediction behind them, and how memory grows."""
    if study.hypotheses.is_empty():
        return EMPTY
    references = in_order(study, study.hypotheses["series"])
    return Section(
        anchor="mechanism",
        nav="Why",
        finding=mechanism_finding(study, references[0]),
        lead=f"{RULE} What each hypothesis says, and each rule, is explained in docs/mechanism.md.",
        caption="A verdict is about what this study measured on this machine, and no more.",
        table=_verdicts(study, references),
        open=True,
        folded=[
            ("Every prediction, and what was seen", _predictions(study, references)),
            *([("How memory grows", _growth(study, references))] if not study.growth.is_empty() else []),
        ],
        file="hypotheses",
    )


def in_order(study: Study, series: Iterable[str]) -> list[str]:
    """Reference curves, each once: this machine's first, of it the newest stack's, of that the worst."""
    wanted = set(series)
    worst_first = [curve.row for curve in study.curves if curve.series in wanted]
    newest_first = sorted(worst_first, key=lambda row: stack_order(row["stack"]), reverse=True)
    rows = sorted(newest_first, key=lambda row: bool(row["machine"] != study.about.get("machine")))
    return [row["series"] for row in rows]


def _by(references: list[str], table: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([table.clear(), *(table.filter(pl.col("series") == series) for series in references)])


def mechanism_finding(study: Study, series: str) -> str:
    """The title: what explains the reference curve, or why nothing does."""
    own = study.hypotheses.filter(pl.col("series") == series).unique("hypothesis", maintain_order=True)
    verdicts = dict(own.select("hypothesis", "verdict").iter_rows())
    name = curve_name(study, series)
    if set(verdicts.values()) == {NOTHING}:
        return f"{name}: no regime; nothing to explain"
    named = explaining(h for h, verdict in verdicts.items() if verdict == SUPPORTED)
    if named:
        return f"Why {name} is slow: {listing(f'{SHORT[h]} ({h})' for h in named)}"
    curve = next((curve for curve in study.curves if curve.series == series), None)
    if curve is not None and curve.verdict == "undetermined":
        return f"{name}: not known whether it is slow, so that nothing can be explained yet"
    counts = Counter(verdicts.values())
    rest = f"{counts[CANNOT_TELL]} cannot be told, {counts[CONTRADICTED]} are contradicted"
    return f"No single hypothesis is shown to explain {name}: {rest}"


def curve_name(study: Study, series: str) -> str:
    """``GPT-2 Medium on MPS``, with the stack (``(torch 2.8.0)``) and the machine where the study has several."""
    found = next(curve for curve in study.curves if curve.series == series)
    apart = place_words(study.series.select("machine", "stack").unique().to_dicts())[
        found.row["machine"], found.row["stack"]
    ]
    return spoken(found, apart)


def _verdicts(study: Study, references: list[str]) -> Table:
    own = _by(references, study.hypotheses).unique(["series", "hypothesis"], maintain_order=True)
    rows = [
        (
            f"{row['hypothesis']}. {row['statement']}",
            *([curve_name(study, row["series"])] if len(references) > 1 else []),
            row["verdict"],
            sentence(prose(row["why"])) if row["why"] else "",
        )
        for row in own.to_dicts()
    ]
    where = ["Curve"] if len(references) > 1 else []
    return Table(("Hypothesis", *where, "Verdict", "Why"), rows, icons=ICONS)


def _predictions(study: Study, references: list[str]) -> Table:
    rows = [
        (
            f"{row['hypothesis']}: {row['prediction']}",
            *([curve_name(study, row["series"])] if len(references) > 1 else []),
            row["outcome"],
            _seen(row),
            row["expected"],
            row["against"] or "nothing",
            "yes" if row["needed"] else "",
        )
        for row in _by(references, study.hypotheses).to_dicts()
    ]
    where = ["Curve"] if len(references) > 1 else []
    columns = ("Prediction", *where, "Outcome", "Seen", "Agrees", "Contradicts", "Needed")
    return Table(columns, rows, icons=OUTCOMES)


def _seen(row: dict[str, object]) -> str:
    """The value with its interval, its arm and its words; or what would have to be measured."""
    value, low, high = row["value"], row["low"], row["high"]
    words = prose(str(row["seen"]))
    if not isinstance(value, float):
        return f"needs {words}"
    ends = f" ({_signed(low)} to {_signed(high)})" if isinstance(low, float) and isinstance(high, float) else ""
    return f"{_signed(value)}{ends}; {words}; {row['arm']}"


def _signed(value: float) -> str:
    return f"−{digits(-value)}" if value < 0 and digits(-value) != "0" else digits(abs(value))


def _growth(study: Study, references: list[str]) -> Table:
    rows = [
        (
            COUNTERS[row["counter"]],
            *([curve_name(study, row["series"])] if len(references) > 1 else []),
            {"length": "output length", "requests": "requests of a process", "steps": "time within a request"}[
                row["over"]
            ],
            {"between": "not told"}.get(row["kind"], row["kind"]),
            "" if row["power"] is None else f"{row['power']:.2f} ({row['low']:.2f}–{row['high']:.2f})",
            gigabytes(row["change_bytes"]),
            row["n"],
        )
        for row in _by(references, study.growth).to_dicts()
    ]
    where = ["Curve"] if len(references) > 1 else []
    columns = ("Counter", *where, "Over", "Growth", "Power (95 %)", "Change", "Values")
    caption = (
        "Power of x in a + c·x^power, a and c not negative: 1 is linear, 2 quadratic. Lengths up to the last slow one."
    )
    note = f"{caption} {plural(len(rows), 'fit')}."
    return Table(columns, rows, frozenset(columns[-2:]), caption=note)
