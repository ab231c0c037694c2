#!/usr/bin/env python3
"""Make the environment of a stack that a study lists, and record what it is, or why it could not be made."""

import argparse
import json
import sys
from pathlib import Path

from speedbump.grid.environments import Definition
from speedbump.measure.installation import make_environment


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--definition", type=json.loads, required=True, metavar="JSON", help="what it is made of")
    parser.add_argument("--folder", type=Path, required=True, help="the environment; whatever is there is deleted")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to record what came of it")
    parser.add_argument("--log", type=Path, required=True, metavar="FILE", help="keeps what the installers print")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    definition = Definition(**args.definition)
    print(f"speedbump: making an environment of {definition.title}", file=sys.stderr, flush=True)
    made = make_environment(definition, args.folder, args.out.with_suffix(".lock"), args.log)
    args.out.write_text(made.model_dump_json(indent=1) + "\n")
    print(f"speedbump: {definition.title}: {made.failed or f'made by {made.installer}'}", file=sys.stderr)


if __name__ == "__main__":
    main()
