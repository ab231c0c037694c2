#!/usr/bin/env python3
"""Measure one cell in a process of its own, and write its requests as Parquet."""

import argparse
import json
import sys
from pathlib import Path

from speedbump.grid.environments import python_of
from speedbump.grid.models import ModelError, load_models
from speedbump.grid.stack import StackError
from speedbump.grid.study import parse_limits
from speedbump.measure.place import check_place
from speedbump.measure.supervisor import RefusedError, check_writable, end_on_signals, measure_cell
from speedbump.tables import TableError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cell", required=True, type=json.loads, metavar="JSON", help="the cell's parameters")
    parser.add_argument("--machine", required=True, metavar="SLUG", help="the machine that the cell belongs to")
    parser.add_argument("--stack", required=True, metavar="SLUG", help="the stack that the cell belongs to")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="the Parquet file to write")
    parser.add_argument("--limits", default="{}", metavar="JSON", help="time, memory and battery limits")
    parser.add_argument(
        "--environment", nargs="?", type=Path, metavar="FILE", help="record of the environment whose torch is measured"
    )
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="the Python whose torch is measured")
    parser.add_argument("--log", type=Path, metavar="FILE", help="keeps what libraries print in the worker")
    parser.add_argument("--models", type=Path, default=Path("config/models"), metavar="DIR", help="the models' files")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    end_on_signals()
    try:
        limits = parse_limits(args.limits)
        models = load_models(args.models)
        if args.cell["model"] not in models:
            raise ModelError(f"{args.models}: no model {args.cell['model']}; there are {', '.join(models)}")
        check_writable(args.out)
        python = python_of(args.environment) if args.environment else args.python
        check_place(args.machine, args.stack, python)
        measure_cell(
            args.cell, models[args.cell["model"]], args.machine, args.stack, args.out, limits, python, args.log
        )
    except KeyError as error:
        sys.exit(f"measure_cell: --cell lacks {error}")
    except (RefusedError, ModelError, StackError, TableError, ValueError, OSError) as error:
        sys.exit(f"measure_cell: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
