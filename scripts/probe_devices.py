#!/usr/bin/env python3
"""Ask a worker once which devices really compute here, write the answer as JSON, and say what this place is called."""

import argparse
import json
import sys
from pathlib import Path

from speedbump.grid.devices import devices_file
from speedbump.grid.machine import find_machine
from speedbump.grid.stack import StackError, find_stack
from speedbump.measure.devices import probe_devices
from speedbump.measure.process import StartError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: where the pipeline looks for it")
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="the Python whose torch is asked")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    try:
        machine, stack = find_machine(), find_stack(args.python)
        found = probe_devices(args.python)
        out = args.out or devices_file(machine, stack)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    except (StartError, StackError, OSError) as error:
        sys.exit(f"probe_devices: {error}")
    print(f"--config machine={machine} stack={stack}")


if __name__ == "__main__":
    main()
