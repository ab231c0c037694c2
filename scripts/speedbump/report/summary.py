"""What the report says, for machines."""

from dataclasses import asdict
from typing import Any

import polars as pl

import speedbump
from speedbump.report.changes import Change, changes_between_stacks, every_change, lost_curves, upgrade_sentence
from speedbump.report.coverage import outcomes
from speedbump.report.curves import SERIES_AXES, Curve
from speedbump.report.sections.workload import judge
from speedbump.report.study import Study
from speedbump.report.verdict import advise, condition, curve_sentence, verdict_sentence
from speedbump.report.words import sentence

RATE = ("rate_from", "rate_from_low", "rate_from_high", "rate_ratio", "rate_ratio_low", "rate_ratio_high")
"""Columns of a series that say how its rate changes."""


def summarise(study: Study) -> dict[str, Any]:
    """summary.json. ``verdict`` is the one sentence that the command line prints. Reproducible: no clock in it."""
    return {
        "speedbump": speedbump.__version__,
        "study": study.name,
        "title": study.title,
        "partial": study.partial,
        "machine": study.about.get("machine"),
        "stacks": study.about.get("stacks", []),
        "listed": study.about.get("listed", False),
        "verdict": verdict_sentence(study.curves, study.progress if study.partial else None),
        "condition": condition(study.curves),
        "next_command": study.about.get("next_command"),
        "next_hours": study.about.get("next_hours"),
        "runs": {"planned": study.progress.cells, "done": study.progress.done, "outcomes": dict(outcomes(study))},
        "requests": study.requests.filter(pl.col("phase") == "measured").height,
        "faults": study.faults.height,
        "no_environment": study.faults.filter(problem="no environment")["message"].to_list(),
        "environments": study.environments,
        "workload": [{"name": one.name, **asdict(one.estimate), "replay": one.replay} for one in judge(study)],
        "upgrade": upgrade_sentence(changes_between_stacks(study)) or None,
        "changes": [_change(change) for change in every_change(study)],
        "lost": [asdict(lost) for lost in lost_curves(study)],
        "curves": [_curve(curve) for curve in study.curves],
    }


def _change(change: Change) -> dict[str, Any]:
    """A row of series_changes with its regimes, and the lengths that changed."""
    row = {key: value for key, value in change.row.items() if key != "sentence"}
    apart = ("old", "new")
    return {
        "name": change.name,
        "between": "stacks" if change.between_stacks else "machines",
        "newest": change.newest,
        "sentence": sentence(change.sentence),
        **row,
        "regimes": [{k: v for k, v in regime.items() if k not in apart} for regime in change.regimes],
        "lengths": [
            {k: v for k, v in budget.items() if k not in apart}
            for budget in change.budgets
            if budget["change"] != "unchanged"
        ],
    }


def _rate_change(curve: Curve) -> dict[str, Any] | None:
    if curve.row["rate_ratio"] is None:
        return None
    return {name.removeprefix("rate_"): curve.row[name] for name in RATE}


def _curve(curve: Curve) -> dict[str, Any]:
    advice = advise(curve)
    return {
        "series": curve.series,
        "name": curve.name,
        "machine": curve.row["machine"],
        "stack": curve.row["stack"],
        "axes": {axis: curve.row[axis] for axis in SERIES_AXES},
        "verdict": curve.verdict,
        "sentence": curve_sentence(curve),
        "reason": curve.row["reason"],
        "busy": curve.busy,
        "cells": {"measured": curve.row["n_cells"], "disturbed": curve.row["n_disturbed"]},
        "lengths_measured": {key: curve.row[key] for key in ("n_budgets", "n_gen_min", "n_gen_max")},
        **{name: curve.row[name] for name in ("noticed", "noticed_ends", "called", "called_ends")},
        "rate_change": _rate_change(curve),
        "narrowest": curve.row["narrowest"],
        "stopped": {key: curve.row[f"stopped_{key}"] for key in ("from", "by")},
        "lengths": {"avoid": advice.avoid, "unsure": advice.unsure, "normal": advice.normal},
        "regimes": [
            {key: value for key, value in asdict(regime).items() if key != "series"} for regime in curve.regimes
        ],
        "next": curve.row["next"],
    }
