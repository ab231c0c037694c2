"""Build a study's site: the page, the data beside it and a summary for machines."""

import argparse
import sys
from pathlib import Path

from speedbump.analyse.workload import WorkloadError
from speedbump.report.charts import read_drawing
from speedbump.report.published import read_published
from speedbump.report.site import write_site
from speedbump.report.study import read_study
from speedbump.tables import TableError


def main() -> None:
    args = parse_args()
    drawing, pictures = read_drawing(args.charts)
    write_site(read_study(args.folder), read_published(args.reference), drawing, pictures, args.templates, args.out)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the study's folder: its tables, study.json and environment.json")
    parser.add_argument("--charts", type=Path, required=True, help="what draw_charts.py wrote")
    parser.add_argument("--reference", type=Path, required=True, help="folder of the paper's published figures")
    parser.add_argument("--templates", type=Path, required=True, help="folder of the page's template, style and script")
    parser.add_argument("--out", type=Path, required=True, help="folder to write, replaced as a whole")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except (OSError, TableError, WorkloadError) as error:
        sys.exit(str(error))
