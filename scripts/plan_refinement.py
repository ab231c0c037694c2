#!/usr/bin/env python3
"""Plan one round of refinement: the next budgets of all series, with the reason for each."""

import argparse
import json
import sys
from pathlib import Path

from speedbump.analyse.refinement import plan_round
from speedbump.analyse.regimes import find_regimes
from speedbump.analyse.runs import read_runs
from speedbump.grid.study import Refinement


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="JSON file: run files of the experiment so far")
    parser.add_argument("--settings", required=True, help="the study's refinement settings, as JSON")
    parser.add_argument("--round", type=int, required=True, help="number of the round, from 1")
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="plans of the earlier rounds")
    parser.add_argument(
        "--checked", nargs="*", default=[], help="cells of an upgrade's check among the first round's; kept in its plan"
    )
    parser.add_argument("--out", type=Path, required=True, help="where to write the plan (JSON)")
    return parser.parse_args()


def remaining(settings: Refinement, earlier: list[Path]) -> Refinement:
    """The settings with the limits that the earlier rounds left over."""
    spent = [cell for plan in earlier for cell in json.loads(plan.read_text())["cells"]]
    cells, hours = settings.max_cells, settings.max_hours
    if cells is not None:
        cells = max(cells - len(spent), 0)
    if hours is not None:
        hours = max(hours - sum(cell["predicted_s"] for cell in spent) / 3600, 0.0)
    return settings.model_copy(update={"max_cells": cells, "max_hours": hours})


def main() -> int:
    args = parse_args()
    try:
        settings = remaining(Refinement.model_validate_json(args.settings), args.earlier)
        files = [file for runs in json.loads(args.runs.read_text())["experiments"].values() for file in runs]
        requests = read_runs(files).requests
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    cells = plan_round(requests, find_regimes(requests), settings, args.round)
    rows = [cell.as_row() for cell in cells]
    text = json.dumps({"round": args.round, "checked": args.checked, "cells": rows}, indent=2)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    temporary = args.out.with_suffix(".tmp")
    temporary.write_text(text + "\n")
    temporary.replace(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
