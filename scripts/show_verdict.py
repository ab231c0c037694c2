"""Print what a study's report comes to: the verdict, what is worth measuring again or next, and where the page is."""

import argparse
import sys
from pathlib import Path

from speedbump.plan.next_study import DEFAULT
from speedbump.report.closing import closing_lines
from speedbump.tables import TableError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path, help="the study's folder under results/studies")
    parser.add_argument("--configfile", default=DEFAULT, help="the study's own file, for the lines that name it")
    args = parser.parse_args()
    try:
        lines = closing_lines(args.study, args.configfile)
    except (TableError, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
