"""The code in one folder, which nobody may write to, and studies and results in another."""

import os
import shutil

import pytest

from .conftest import STUDY, Project, make_project

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """The pipeline, read-only."""
    project = make_project(tmp_path_factory.mktemp("code") / "the pipeline's code")
    places = [project.root, *project.root.rglob("*")]
    for place in places:
        place.chmod(place.stat().st_mode & ~0o222)
    yield project
    for place in places:
        place.chmod(place.stat().st_mode | 0o200)


@pytest.fixture(scope="module")
def work(code, tmp_path_factory):
    """A working directory with the tiny study, whose models are the code's."""
    root = tmp_path_factory.mktemp("work") / "a user's work"
    root.mkdir()
    shutil.copy(code.root / STUDY, root / "mine.yaml")
    return Project(root)


def run(code, work, *arguments, study="mine.yaml"):
    return work.run("-s", str(code.root / "Snakefile"), *arguments, study=study)


def test_a_study_is_measured_and_reported_where_its_user_works(code, work):
    before = code.tree()
    outcome = run(code, work)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == len(work.runs) == 3
    assert (work.root / "results/studies/tiny/site/index.html").exists()
    assert {entry.name for entry in work.root.iterdir()} == {".snakemake", "mine.yaml", "results"}
    assert code.tree() == before
    assert "__pycache__" not in outcome.text
    assert run(code, work).jobs == {}
    for file in (work.root / "results/studies").rglob("*"):
        if file.suffix in (".html", ".json", ".svg", ".csv"):
            assert "the pipeline's code" not in file.read_text(), f"{file.name} names a folder of its user"


def test_the_folder_may_be_named_and_the_default_study_is_the_codes(code, work, tmp_path):
    done = Project(tmp_path).run("-n", "-s", str(code.root / "Snakefile"), "-d", str(work.root / "new"), study=None)
    assert done.status == 0, done.text
    assert "cpu_look" in done.text
    assert list(tmp_path.iterdir()) == []
    assert os.listdir(work.root / "new") == [".snakemake"]  # noqa: PTH208


def test_a_study_of_the_working_directory_comes_before_the_codes(code, work, tmp_path):
    (tmp_path / "config").mkdir()
    shutil.copy(code.root / STUDY, tmp_path / "config" / "config.yaml")
    outcome = run(code, Project(tmp_path), "-n", study=None)
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 3
    assert "cpu_look" not in outcome.text
