"""The Makefile's targets name a study's own file and folder."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="needs make")


@pytest.fixture
def project(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "config", tmp_path / "config", ignore=shutil.ignore_patterns("bundles", "models"))
    return tmp_path


def make(project, *arguments):
    apart = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # tests run by make, too
    return subprocess.run(["make", "-n", *arguments], cwd=project, env=apart, capture_output=True, text=True)


def test_without_a_study_it_is_the_first_look(project):
    printed = make(project).stdout
    assert "scripts/show_verdict.py results/studies/first-look --configfile config/config.yaml" in printed
    assert "--configfile=" not in printed


@pytest.mark.parametrize("name", ["own", '"own"', "'own'", "own  # mine"])
def test_the_folder_is_the_one_that_the_file_names(project, name):
    text = (project / "config" / "scan.yaml").read_text().replace("study: scan", f"study: {name}")
    (project / "config" / "copy.yaml").write_text(text)
    printed = make(project, "STUDY=copy").stdout
    assert "--configfile=config/copy.yaml" in printed
    assert "scripts/show_verdict.py results/studies/own --configfile config/copy.yaml" in printed
    assert "scripts/gate.py results/studies/own\n" in make(project, "gate", "STUDY=copy").stdout


@pytest.mark.parametrize("line", ["study :", "{study: own, title: x}", "study: >-\n  own\n#"])
def test_a_name_that_make_cannot_read_stops_it_before_any_work(project, line):
    (project / "config" / "copy.yaml").write_text(f"{line} own\n")
    refused = make(project, "STUDY=copy")
    assert refused.returncode == 2
    assert "config/copy.yaml: make looks for the study's name on a line of its own, as in study: scan" in refused.stderr
    assert "snakemake --cores 1" not in refused.stdout


@pytest.mark.parametrize("name", ["first-look scan", "s*", ""])
def test_a_name_is_one_study(project, name):
    refused = make(project, f"STUDY={name}")
    assert refused.returncode == 2
    assert "no such study; STUDY= takes one of: first-look" in refused.stderr


def test_an_unknown_study_is_one_line_before_any_work(project):
    refused = make(project, "STUDY=nope")
    assert refused.returncode == 2
    assert refused.stdout == ""
    (line,) = refused.stderr.splitlines()
    assert "config/nope.yaml: no such study; STUDY= takes one of: first-look example gpu mechanism paper scan." in line
