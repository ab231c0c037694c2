"""Building a site in a test."""

import subprocess
import sys
from pathlib import Path

from speedbump.report.charts import read_drawing, write_drawing
from speedbump.report.drawing import draw_study
from speedbump.report.published import read_published
from speedbump.report.site import write_site
from speedbump.report.study import read_study

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "config" / "reference"
TEMPLATES = ROOT / "reports"


def build(folder: Path) -> Path:
    """Draw and build the study in ``folder`` within this process; return its site."""
    study, published = read_study(folder), read_published(REFERENCE)
    write_drawing(draw_study(study, published), folder / "charts", TEMPLATES / "fonts")
    write_site(study, published, *read_drawing(folder / "charts"), TEMPLATES, folder / "site")
    return folder / "site"


def build_by_scripts(folder: Path) -> Path:
    """The same as the pipeline does it."""
    draw(folder)
    return site(folder)


def draw(folder: Path) -> Path:
    """Draw the study's charts; return their folder."""
    charts = folder / "charts"
    run_script("draw_charts.py", folder, "--reference", REFERENCE, "--out", charts)
    return charts


def site(folder: Path) -> Path:
    """Build the site from the charts; return its folder."""
    out = folder / "site"
    files = ("--charts", folder / "charts", "--reference", REFERENCE, "--templates", TEMPLATES)
    run_script("build_site.py", folder, *files, "--out", out)
    return out


def run_script(name: str, *args: object) -> None:
    """Run a script. Fails with what it printed: scripts say nothing when all is well."""
    script = [sys.executable, str(ROOT / "scripts" / name), *map(str, args)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stderr
