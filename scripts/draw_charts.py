"""Draw every chart of a study's report: one specification and one static SVG each, data sets once."""

import argparse
import shutil
import sys
from pathlib import Path

from speedbump.analyse.workload import WorkloadError
from speedbump.report.charts import write_drawing
from speedbump.report.drawing import draw_study
from speedbump.report.published import read_published
from speedbump.report.study import read_study
from speedbump.tables import TableError

FONTS = Path(__file__).resolve().parents[1] / "reports" / "fonts"


def main() -> None:
    args = parse_args()
    study = read_study(args.folder)
    drawing = draw_study(study, read_published(args.reference))
    shutil.rmtree(args.out, ignore_errors=True)
    write_drawing(drawing, args.out, args.fonts)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the study's folder: its tables, study.json and environment.json")
    parser.add_argument("--reference", type=Path, required=True, help="folder of the paper's published figures")
    parser.add_argument("--out", type=Path, required=True, help="folder to write, replaced as a whole")
    parser.add_argument("--fonts", type=Path, default=FONTS, help="folder of Inter, which measures the static text")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except (OSError, TableError, WorkloadError) as error:
        sys.exit(str(error))
