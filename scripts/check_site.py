"""Check that a site can be published: self-contained, complete, and naming nobody. One line a defect."""

import argparse
import sys
from pathlib import Path

from speedbump.report.check import defects


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, help="the folder that build_site.py wrote")
    found = defects(parser.parse_args().site)
    for defect in found:
        print(defect, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
