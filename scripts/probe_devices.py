#!/usr/bin/env python3
"""Ask a worker once which devices really compute here, and write the answer as JSON."""

import argparse
import json
import sys
from pathlib import Path

from speedbump.measure.devices import probe_devices
from speedbump.measure.process import StartError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="the JSON file to write")
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="the Python whose torch is asked")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    try:
        found = probe_devices(args.python)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    except (StartError, OSError) as error:
        sys.exit(f"probe_devices: {error}")


if __name__ == "__main__":
    main()
