#!/usr/bin/env python3
"""Check on this machine what was read of macOS and not seen: eight lines to paste into an issue.

Takes some minutes, and keeps nothing. Ends with 1 when something differs. docs/mac.md says what each line means.
"""

import argparse
import platform
import sys
import tempfile
from pathlib import Path

from speedbump.grid.machine import find_machine
from speedbump.grid.stack import StackError, find_stack
from speedbump.measure.doctor import DIFFERS, examine, this_machine
from speedbump.measure.supervisor import end_on_signals

ROOT = Path(__file__).parents[1]


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    end_on_signals()
    try:
        print(f"speedbump doctor: {find_machine()}, {find_stack()}, python {platform.python_version()}", flush=True)
    except StackError as error:
        print(error, file=sys.stderr)
        return 2
    differs = 0
    with tempfile.TemporaryDirectory(prefix="sb") as folder:
        for number, (name, finding) in enumerate(examine(this_machine(ROOT, Path(folder))), 1):
            print(f"{number} {name}: {finding.outcome}{finding.figures and ': '}{finding.figures}", flush=True)
            differs += finding.outcome == DIFFERS
    return int(differs > 0)


if __name__ == "__main__":
    sys.exit(main())
