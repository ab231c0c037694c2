"""The data sets behind the charts: one of points and one of repeats for each curve, rounded for the page."""

from collections import defaultdict
from typing import Any

import polars as pl

from speedbump.report.charts import Rows
from speedbump.report.curves import Curve
from speedbump.report.study import Study
from speedbump.report.words import lengths

MEMORY = ("torch_current", "torch_driver", "rss", "footprint", "system_used", "swap_used")
MOST_REPEATS = 20_000
"""More repeats than these are left to the data files: a page of them is slow and shows no more."""


def curve_points(curve: Curve) -> Rows:
    """One row a length.

    n: tokens.  y, lo, hi, e, elo, ehi: latency, its interval, the trend and its band, seconds.
    f: slow-down against the trend.  t: latency from which on this length would have been noticed.
    bound: y is a lower bound.  requests: measured ones that finished.
    piece: numbers the stretches of one state, so that no line crosses a regime's edge.
    """
    rows: Rows = []
    piece, before = 0, None
    for budget in curve.budgets.to_dicts():
        if before is not None and budget["state"] != before:
            piece += 1
        before = budget["state"]
        rows.append(
            {
                "n": budget["n_gen"],
                "y": short(budget["latency_s"]),
                "lo": short(budget["low_s"]),
                "hi": short(budget["high_s"]),
                "e": short(budget["expected_s"]),
                "elo": short(budget["expected_low_s"]),
                "ehi": short(budget["expected_high_s"]),
                "f": short(budget["slowdown"]),
                "t": short(_product(budget["expected_s"], budget["noticed"])),
                "state": budget["state"],
                "bound": bool(budget["lower_bound"]),
                "piece": piece,
                "requests": budget["n_requests"],
            }
        )
    return rows


def _product(value: float | None, factor: float | None) -> float | None:
    return None if value is None or factor is None else value * factor


def summarise_cells(cells: pl.DataFrame) -> pl.DataFrame:
    """Cells that differ in the process alone as one row: the median of times, the largest memory peak."""
    return (
        cells.group_by("n_gen")
        .agg(
            pl.col("ttft_median_s", "decode_median_s").median(),
            pl.col(f"{name}_peak_bytes" for name in MEMORY).max(),
        )
        .sort("n_gen")
    )


def repeat_points(study: Study) -> dict[str, Rows]:
    """Every measured request that finished, by series: length, seconds, state of its length. Empty when too many."""
    measured = study.requests.filter((pl.col("phase") == "measured") & (pl.col("status") == "ok"))
    points: dict[str, Rows] = defaultdict(list)
    if measured.height > MOST_REPEATS:
        return points
    states = study.budgets.select("series", "n_gen", "state")
    table = measured.join(states, on=["series", "n_gen"], how="left").sort("series", "n_gen", "cell", "request")
    for series, n_gen, e2e_s, state in table.select("series", "n_gen", "e2e_s", "state").iter_rows():
        points[series].append({"n": n_gen, "y": short(e2e_s), "state": state})
    return points


def spans(curve: Curve) -> Rows:
    """The regimes as bands: the surely slow core, and the brackets within which an edge lies."""
    rows: Rows = []
    for regime in curve.regimes:
        kind, word = ("core", "step" if regime.is_step else "slow") if regime.accepted else ("suspected", "unclear")
        first, last = regime.onset_high or regime.first_slow, regime.recovery_low or regime.last_slow
        if first > last:
            first, last = regime.first_slow, regime.last_slow
        label = f"{word}, {lengths(regime.first_slow, regime.last_slow)}"
        rows.append({"a": first, "z": last, "kind": kind, "label": label})
        if regime.onset_low is not None:
            rows.append({"a": regime.onset_low, "z": first, "kind": "edge", "label": ""})
        if regime.recovery_high is not None:
            rows.append({"a": last, "z": regime.recovery_high, "kind": "edge", "label": ""})
    return rows


def short(value: Any, digits: int = 4) -> float | None:
    """A number with as many digits as a chart can show; None for what was not measured or is not finite."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return float(f"{value:.{digits}g}")
