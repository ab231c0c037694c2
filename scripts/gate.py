#!/usr/bin/env python3
"""Fail when an upgrade made a study slower: for continuous integration.

Reads the study's summary.json, so that a regression is told from a crash by the exit status:
  0  nothing became slower
  1  a new slow regime, or a slow-down beyond the limit; one line each
  2  summary.json cannot be read, or lacks a stack that was named, or this machine's stack in use
  3  nothing to compare, or some curve cannot be told, or is missing on the newer stack; one line each
"""

import argparse
import json
import math
import sys
from pathlib import Path

from speedbump.grid.machine import find_machine
from speedbump.grid.stack import StackError, find_stack
from speedbump.report.gate import judge_upgrade, lacks_stack


def main() -> int:
    args = parse_args()
    file = args.study / "site" / "summary.json" if args.study.is_dir() else args.study
    try:
        summary = json.loads(file.read_text(encoding="utf-8"))
        if args.pair is None and (stack := _stack_in_use()) and lacks_stack(summary, find_machine(), stack):
            print(f"{file}: of before {stack}: run the study first, or name two stacks by --pair", file=sys.stderr)
            return 2
        gate = judge_upgrade(summary, args.slower, args.pair)
    except OSError as error:
        print(f"{file}: {error.strerror}: run the study first, or build its report", file=sys.stderr)
        return 2
    except (UnicodeDecodeError, json.JSONDecodeError, LookupError, TypeError, AttributeError):
        print(f"{file}: not as the report writes it: build the report again", file=sys.stderr)
        return 2
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for line in gate.findings:
        print(f"slower: {line}")
    for line in gate.doubts:
        print(f"can't tell: {line}")
    if not gate.compared and not gate.doubts:
        print("nothing to compare: no curve was measured under two stacks of one machine, the older named first")
    elif not gate.findings and not gate.doubts:
        print(f"nothing became slower: {gate.compared} curve{'s' * (gate.compared > 1)} compared")
    return 1 if gate.findings else 3 if gate.doubts or not gate.compared else 0


def _stack_in_use() -> str | None:
    try:
        return find_stack()
    except StackError:
        return None


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the study's folder under results/studies, or a summary.json")
    parser.add_argument(
        "--slower", type=float, default=1.1, help="slow-down that is still let through (default 1.1: a tenth)"
    )
    parser.add_argument(
        "--pair",
        nargs=2,
        metavar=("OLD", "NEW"),
        help="stacks to compare, by a part of their names (default: the newest and the one before it)",
    )
    args = parser.parse_args()
    if not 1 <= args.slower < math.inf:
        parser.error("--slower: must be a finite number of at least 1, such as 1.1")
    return args


if __name__ == "__main__":
    sys.exit(main())
