"""From a study's tables to those of hypotheses, growth and mitigations."""

import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from speedbump.analyse.mechanism.arms import Reference, find_references, read_curves
from speedbump.analyse.mechanism.growth import fit_growth
from speedbump.analyse.mechanism.mitigations import mitigation_rows
from speedbump.analyse.mechanism.observations import observe
from speedbump.analyse.mechanism.rules import STATEMENTS, Verdict, judge
from speedbump.analyse.mechanism.sight import Observation, Sight
from speedbump.tables import GROWTH, HYPOTHESES, MITIGATIONS

Row = dict[str, Any]
COUNTERS = ("torch_current", "torch_driver", "rss", "footprint", "system_used", "swap_used")


@dataclass(frozen=True)
class Judgement:
    """tables.HYPOTHESES, tables.GROWTH and tables.MITIGATIONS."""

    hypotheses: pl.DataFrame
    growth: pl.DataFrame
    mitigations: pl.DataFrame


def judge_study(
    requests: pl.DataFrame,
    samples: pl.DataFrame,
    series: pl.DataFrame,
    budgets: pl.DataFrame,
    regimes: pl.DataFrame,
    around: Row | None = None,
) -> Judgement:
    """Judge every reference curve that has an arm; empty tables where none has.

    around: axes of the curve that the study is around, where it is around one.
    """
    hypotheses: list[Row] = []
    growth: list[Row] = []
    mitigations: list[Row] = []
    for sight in sights(requests, samples, series, budgets, regimes, around):
        hypotheses += _rows(sight)
        growth += growth_rows(sight)
        mitigations += mitigation_rows(sight)
    return Judgement(
        pl.DataFrame(hypotheses, schema=HYPOTHESES.schema),
        pl.DataFrame(growth, schema=GROWTH.schema),
        pl.DataFrame(mitigations, schema=MITIGATIONS.schema),
    )


def sights(
    requests: pl.DataFrame,
    samples: pl.DataFrame,
    series: pl.DataFrame,
    budgets: pl.DataFrame,
    regimes: pl.DataFrame,
    around: Row | None = None,
) -> list[Sight]:
    """Every reference with the requests and samples that belong to it; arguments as for judge_study."""
    found = []
    for reference in find_references(read_curves(series, budgets, regimes), around):
        own = [reference.curve.series, *(arm.curve.series for arm in reference.arms)]
        found.append(Sight(reference, *(table.filter(pl.col("series").is_in(own)) for table in (requests, samples))))
    return found


def _rows(sight: Sight) -> list[Row]:
    seen = observe(sight)
    return [row for verdict in judge(seen) for row in _verdict_rows(sight.reference, verdict, seen)]


def _verdict_rows(reference: Reference, verdict: Verdict, seen: dict[str, Observation]) -> list[Row]:
    curve = reference.curve
    return [
        {
            "machine": curve.row["machine"],
            "stack": curve.row["stack"],
            "series": curve.series,
            "hypothesis": verdict.hypothesis,
            "statement": STATEMENTS[verdict.hypothesis],
            "verdict": verdict.verdict,
            "why": verdict.why,
            "prediction": prediction.words,
            "needed": prediction.needed,
            "observable": prediction.observable,
            "expected": prediction.range.words,
            "against": prediction.range.against,
            "arm": seen[prediction.observable].arm if seen[prediction.observable].value is not None else None,
            "value": _finite(seen[prediction.observable].value),
            "low": _finite(seen[prediction.observable].low),
            "high": _finite(seen[prediction.observable].high),
            "n": seen[prediction.observable].n,
            "outcome": outcome,
            "seen": seen[prediction.observable].words,
        }
        for prediction, outcome in verdict.outcomes
    ]


def growth_rows(sight: Sight) -> list[Row]:
    """Growth of every counter over lengths, over the requests of a process, and over the steps of a request."""
    curve = sight.reference.curve
    if not curve.points:
        return []
    slow = curve.lengths("slow")
    last = max(slow, default=max(curve.points))
    cells = sight.own.filter(pl.col("n_gen") <= last)
    longest = max((n for n in cells["n_gen"].unique() if n not in slow), default=None)
    one = sight.own.filter(pl.col("n_gen") == last)
    steps = sight.samples.filter(
        (pl.col("n_gen") == longest) & (pl.col("request") == 0) & pl.col("series").is_in(sight.alike)
    ).with_columns(offset_s=pl.col("offset_s").clip(1e-6))
    rows = []
    for over, frame, x in (("length", cells, "n_gen"), ("requests", one, "place"), ("steps", steps, "offset_s")):
        frame = frame.with_columns(place=pl.col("request") + 1)
        for counter in COUNTERS:
            known = frame.filter(pl.col(f"{counter}_bytes").is_not_null()).select(x, y=f"{counter}_bytes")
            grouped = known.group_by(x).agg(pl.col("y").median()).sort(x)
            fit = fit_growth(grouped[x].to_numpy().astype(float), grouped["y"].to_numpy().astype(float))
            if fit is not None:
                rows.append(
                    {
                        "machine": curve.row["machine"],
                        "stack": curve.row["stack"],
                        "series": curve.series,
                        "counter": counter,
                        "over": over,
                        "kind": fit.kind,
                        "power": _finite(fit.power),
                        "low": fit.low,
                        "high": fit.high,
                        "change_bytes": int(fit.change),
                        "n": fit.n,
                    }
                )
    return rows


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
