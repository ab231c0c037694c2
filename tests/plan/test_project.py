"""What a call is about: the project is opened with one line for a mistake; the studies' own page is right."""

import re
from pathlib import Path

import pytest
import yaml

from speedbump.grid.study import StudyError
from speedbump.plan.project import open_project

ROOT = Path(__file__).parents[2]
README = (ROOT / "config" / "README.md").read_text()


def a_gpu(*python):
    return {name: {"computes": True, "present": True} for name in ("cpu", "cuda")}


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (["a.yaml", "b.yaml"], {}, "--configfile: two studies at once would be merged into one; give one"),
        (["a.yaml"], {"check": True, "partial": True}, "--config: check and partial make two different reports"),
        (["a.yaml"], {"check": "perhaps"}, "--config: check: "),
    ],
)
def test_a_call_that_says_two_things_is_refused(tmp_path, monkeypatch, files, options, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StudyError) as refused:
        open_project(options, files, [], a_gpu, print)
    assert str(refused.value).startswith(message)


def test_the_example_in_the_studies_page_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    project = open_project(yaml.safe_load(example), ["mine.yaml"], [], a_gpu, print)
    assert len(project.grid.cells["scan"]) == 21
    assert list(tmp_path.iterdir()) == []


def test_the_studies_page_names_every_study():
    assert set(re.findall(r"^\| `([a-z_]+\.yaml)`", README, re.MULTILINE)) == {
        file.name for file in (ROOT / "config").glob("*.yaml")
    }


def test_no_experiment_may_be_named_as_a_rule_is():
    """A target of that name would be the rule."""
    rules = {
        name
        for file in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
        for name in re.findall(r"^\s*(?:rule|checkpoint) (\w+):", file.read_text(), re.MULTILINE)
    }
    reserved = re.search(r"^TARGETS = \((.*?)\)", (ROOT / "rules/common.smk").read_text(), re.DOTALL | re.MULTILINE)
    assert rules == set(re.findall(r'"(\w+)"', reserved[1]))


def test_results_that_are_no_folder_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("results").write_text("not a folder")
    with pytest.raises(StudyError, match=r"^results: not a folder that can be written to"):
        open_project({"study": "a", "experiments": []}, ["mine.yaml"], [], a_gpu, print)
