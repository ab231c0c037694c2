"""A script that is given the wrong file says so in one line, and its exit status tells."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def run(script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SCRIPTS / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("script", "arguments", "names"),
    [
        ("list_repeats.py", ["none"], "none/cells.parquet"),
        ("show_verdict.py", ["none"], "none/study.json"),
        ("check_claims.py", ["none"], "none/"),
        ("check_claims.py", ["--published", "--reference", "none"], "none/hendria2026_claims.csv"),
        ("compare_series.py", ["none", "--out", "out.parquet"], "none/requests.parquet"),
        ("compare_stacks.py", ["none", "--series", "s", "--regimes", "r", "--budgets", "b"], "none: "),
        ("gate.py", ["none"], "none"),
        ("judge_hypotheses.py", ["none", "--out", "none"], "none/requests.parquet"),
    ],
)
def test_a_missing_folder_is_named_in_one_line(tmp_path, script, arguments, names):
    done = run(script, *(argument.replace("none", str(tmp_path / "none")) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert names in done.stderr


@pytest.mark.parametrize("flag", ["--help", "--check", "--none"])
def test_asking_about_the_page_of_tables_writes_nothing(flag):
    page = SCRIPTS.parent / "docs" / "tables.md"
    before = page.stat().st_mtime_ns
    assert run("document_tables.py", flag).returncode == (2 if flag == "--none" else 0)
    assert page.stat().st_mtime_ns == before


@pytest.mark.parametrize("about", ["{", "[]", "{}", '{"name": "x"}', None])
def test_a_folder_that_is_no_study_is_no_bundle(tmp_path, about):
    if about is not None:
        (tmp_path / "study.json").write_text(about)
    done = run("make_bundle.py", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert f"{tmp_path}: not the folder of a measured study" in done.stderr
