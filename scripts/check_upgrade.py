#!/usr/bin/env python3
"""Say of each curve whether an upgrade changed it, by the few lengths that a check has measured."""

import argparse
import json
import sys
from pathlib import Path

from speedbump.report.changes import changes_between_stacks
from speedbump.report.study import read_study
from speedbump.tables import BUSIER, TableError


def main() -> int:
    args = parse_args()
    try:
        changes = changes_between_stacks(read_study(args.folder))
    except (OSError, TableError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    curves = [
        {
            "name": change.name,
            "series": change.row["new"],
            "verdict": change.word,
            "sentence": change.sentence,
            "next": change.row["next"],
            "busier": change.row["doubt"] == BUSIER,
        }
        for change in changes
    ]
    content = {"old": args.old, "new": args.new, "left_out": args.left_out, "curves": curves}
    args.out.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    return 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the check's folder, with its tables")
    parser.add_argument("--old", required=True, metavar="SLUG", help="the earlier stack")
    parser.add_argument("--new", required=True, metavar="SLUG", help="the stack that is checked")
    parser.add_argument("--left-out", nargs="*", default=[], metavar="LINE", help="what was not checked, and why")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write: a verdict for each curve")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
