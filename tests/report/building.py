"""Building a site in a test, as the pipeline does it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "config" / "reference"


def build(folder: Path) -> Path:
    """Draw and build the study in ``folder``; return its site."""
    charts, site = folder / "charts", folder / "site"
    run_script("draw_charts.py", folder, "--reference", REFERENCE, "--out", charts)
    run_script(
        "build_site.py", folder, "--charts", charts, "--reference", REFERENCE,
        "--templates", ROOT / "reports", "--out", site,
    )  # fmt: skip
    return site


def run_script(name: str, *args: object) -> None:
    """Run a script. Fails with what it printed: scripts say nothing when all is well."""
    script = [sys.executable, str(ROOT / "scripts" / name), *map(str, args)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stderr
