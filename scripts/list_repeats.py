"""Print the run files of a study that are worth measuring again: failed, unreadable, disturbed.

To measure exactly those again: snakemake --cores 1 -R $(python scripts/list_repeats.py results/studies/first-look)
"""

import argparse
from pathlib import Path

from speedbump.analyse.repeats import runs_to_repeat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the study's folder under results/studies")
    print("\n".join(runs_to_repeat(parser.parse_args().study)))


if __name__ == "__main__":
    main()
