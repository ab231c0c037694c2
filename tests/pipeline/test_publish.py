"""What leaves the machine: it names nobody, and Snakemake's own report works too."""

import getpass
import platform
import re
from pathlib import Path

import polars as pl
import pytest

from .conftest import Project

pytestmark = pytest.mark.pipeline


def texts(file: Path) -> str:
    """All that a file says; of a Parquet file its metadata and its text columns, which are compressed there."""
    text = file.read_bytes().decode("utf-8", errors="replace")
    if file.suffix == ".parquet":
        text += str(pl.read_parquet_metadata(file)) + pl.read_parquet(file).select(pl.col(pl.String)).write_csv()
    return text


def telling(project: Project) -> list[str]:
    """Words that would tell who measured, and where."""
    words = [str(project.root), str(Path.home()) + "/", platform.node(), getpass.getuser()]
    return [word for word in words if len(word) > 4]


def test_no_file_names_its_user_host_or_folders(project):
    files = [file for file in (project.root / "results").rglob("*") if file.is_file()]
    assert len(files) > 20
    for file in files:
        text = texts(file)
        for word in telling(project):
            assert not re.search(rf"(?<!\w){re.escape(word)}", text), f"{file.name} says {word}"


def test_the_site_passes_its_own_check(project):
    done = project.script("scripts/check_site.py", "results/studies/tiny/site")
    assert (done.returncode, done.stderr) == (0, "")


def test_snakemakes_own_report_works_and_names_nobody(project):
    outcome = project.run("--report", "provenance.html")
    assert outcome.status == 0, outcome.text
    page = (project.root / "provenance.html").read_text()
    assert "index.html" in page
    assert "can be mailed as it is" in page, "the captions"
    for word in telling(project):
        assert word not in page
