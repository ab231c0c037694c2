"""A study's folder that is broken is named in one line."""

import json

import pytest
from simulated import Line, simulate

from speedbump.report.study import read_study
from speedbump.tables import TableError


@pytest.mark.parametrize("file", ["study.json", "environment.json"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"{", "is not JSON"), (b"\xff\xfe", "is not JSON"), (b"3", "holds no")],
    ids=["half", "not text", "a number"],
)
def test_a_broken_file_is_named(tmp_path, file, content, problem):
    folder = simulate(tmp_path, [Line()])
    (folder / file).write_bytes(content)
    with pytest.raises(TableError, match=rf"{file}: {problem}") as found:
        read_study(folder)
    assert "\n" not in str(found.value)


def test_what_a_study_lacks_is_said(tmp_path):
    folder = simulate(tmp_path, [Line()])
    (folder / "study.json").write_text(json.dumps({"title": "x"}))
    with pytest.raises(TableError, match=r"study\.json: lacks name, runs"):
        read_study(folder)
