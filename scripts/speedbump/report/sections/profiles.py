"""Operators whose time differs between a slow length and a normal one, from profiled requests."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from speedbump.grid.axes import DEFAULTS, NOT_IN_SERIES
from speedbump.report.charts import Drawing, Rows
from speedbump.report.curves import Curve
from speedbump.report.published import Published
from speedbump.report.section import Section, Table
from speedbump.report.study import Study
from speedbump.report.words import digits, times

MOST = 15
"""Operators shown of each pair of lengths; the data file has all."""
EMPTY = Section("profiles", "Operators", "Operators", empty="Filled by runs with instrument: profile.")
_KEY = ("operator", "side")


@dataclass(frozen=True)
class Pair:
    """A curve's profiled slow length and the normal one nearest to it; without a slow one its longest and shortest.

    operators: milliseconds a token at both, by operator and side, the largest difference first.
    """

    curve: Curve
    slow: bool
    over: int
    under: int
    operators: list[dict[str, Any]]


def pairs(study: Study) -> list[Pair]:
    """A pair of everything that was profiled at two lengths, the most affected curve first.

    A profiled request is in no curve: its curve is the one that differs in how requests are observed or driven alone,
    and of several the one that differs in the least.
    """
    found = []
    profiled = study.requests.filter(pl.col("series").is_in(study.profiles["series"].unique().to_list()))
    for row in profiled.unique("series").sort("series").iter_rows(named=True):
        alike = [curve for curve in study.curves if all(curve.row[name] == row[name] for name in _ALIKE)]
        own = study.profiles.filter(pl.col("series") == row["series"])
        lengths = sorted(own["n_gen"].unique())
        if alike and len(lengths) > 1:
            states = pl.concat([curve.budgets.select("n_gen", "state") for curve in alike])
            slow, over, under = _choose(lengths, set(states.filter(pl.col("state") == "slow")["n_gen"]))
            nearest = min(alike, key=lambda curve: sum(curve.row[name] != row[name] for name in _SHARED))
            found.append(Pair(nearest, slow, over, under, _differences(own, over, under)))
    rank = {curve.series: place for place, curve in enumerate(study.curves)}
    return sorted(found, key=lambda pair: rank[pair.curve.series])


_ALIKE = (
    *("machine", "stack", "model", "device", "dtype", "attention", "kv_cache", "n_prompt", "batch"),
    *("lifetime", "between_requests", "compile", "predecessor", "ballast_gb", "watermark"),
)
_SHARED = tuple(name for name in DEFAULTS if name not in NOT_IN_SERIES)


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Nothing: operators are a table."""
    return Drawing([], {})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """Finding and table."""
    every = pairs(study)
    if not every:
        return EMPTY
    return Section(
        anchor="profiles",
        nav="Operators",
        finding=profile_finding(every[0]),
        lead="Time of each operator in itself, without what it called, for a token, in one profiled request of each "
        "length. A profiler slows what it looks at: compare the two lengths, and not with the latencies above.",
        table=_table(every),
        open=True,
        file="profiles",
    )


def profile_finding(pair: Pair) -> str:
    """The title: where the time goes at the slow length, or that no length is slow."""
    curve = f"{pair.curve.model} on {'the CPU' if pair.curve.device == 'CPU' else pair.curve.device}"
    if not pair.slow:
        return f"{curve}: no slow length was profiled; operators at {pair.over} and {pair.under} tokens"
    gained = [row for row in pair.operators if row["difference_ms"] > 0]
    if not gained:
        return f"{curve}: no operator takes longer for a token at {pair.over} than at {pair.under} tokens"
    whole = sum(row["difference_ms"] for row in gained)
    first = gained[0]
    share = 100 * first["difference_ms"] / whole
    longer = f"a token takes longer at {pair.over} than at {pair.under} tokens"
    return f"{curve}: {longer}, and {share:.0f}% of it is in {first['operator']}"


def _choose(lengths: list[int], slow: set[int]) -> tuple[bool, int, int]:
    """Whether one of the lengths is slow; that one, or the longest; and the nearest normal one, or the shortest."""
    inside, outside = [n for n in lengths if n in slow], [n for n in lengths if n not in slow]
    if not inside or not outside:
        return False, lengths[-1], lengths[0]
    over, under = min(((i, o) for i in inside for o in outside), key=lambda pair: (abs(pair[0] - pair[1]), pair))
    return True, over, under


def _differences(own: pl.DataFrame, over: int, under: int) -> list[dict[str, Any]]:
    """Milliseconds a token at both lengths; on the device where it was seen there, else on the host."""
    seconds = pl.when(pl.col("side") == "device").then("self_device_s").otherwise("self_host_s").fill_null(0.0)
    sums = own.group_by("n_gen", *_KEY).agg(
        ms=1000 * seconds.sum() / pl.col("request").n_unique() / pl.col("n_gen").first(), calls=pl.col("calls").sum()
    )
    at = {n: sums.filter(pl.col("n_gen") == n).drop("n_gen") for n in (over, under)}
    joined = (
        at[over]
        .join(at[under], on=_KEY, how="full", coalesce=True, suffix="_under")
        .with_columns(pl.col("ms", "ms_under").fill_null(0.0), pl.col("calls", "calls_under").fill_null(0))
    )
    ranked = joined.with_columns(difference_ms=pl.col("ms") - pl.col("ms_under"))
    return ranked.sort(pl.col("difference_ms").abs(), *_KEY, descending=[True, False, False]).to_dicts()


def _table(every: list[Pair]) -> Table:
    rows = [
        (
            row["operator"],
            pair.curve.name,
            row["side"],
            f"{pair.over}: {_ms(row['ms'])}",
            f"{pair.under}: {_ms(row['ms_under'])}",
            times(row["ms"] / row["ms_under"]) if row["ms"] and row["ms_under"] else "",
            f"{row['difference_ms']:+.3g}",
        )
        for pair in every
        for row in pair.operators[:MOST]
    ]
    columns = ("Operator", "Curve", "Side", "Slow or longer, ms", "Normal or shorter, ms", "Ratio", "Difference, ms")
    return Table(columns, rows, frozenset(columns[3:]))


def _ms(value: float) -> str:
    return "none" if value == 0 else digits(value)
