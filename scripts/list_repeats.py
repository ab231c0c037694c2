"""Print the run files of a study that are worth measuring again: failed, unreadable, disturbed.

To measure exactly those again: snakemake --cores 1 -R $(python scripts/list_repeats.py results/studies/first-look)
"""

import argparse
import sys
from pathlib import Path

from speedbump.analyse.repeats import runs_to_repeat
from speedbump.tables import TableError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the study's folder under results/studies")
    args = parser.parse_args()
    try:
        print("\n".join(runs_to_repeat(args.study)))
    except (TableError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
