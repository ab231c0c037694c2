"""Coverage: what finished, what did not, and why."""

from pathlib import Path

import pytest
from simulated import GRID, Line, Slow, simulate

from speedbump.report.coverage import Coverage, coverage
from speedbump.report.study import read_study


def covered(folder: Path, *lines: Line, **about: object) -> Coverage:
    return coverage(read_study(simulate(folder, list(lines), **about)))


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        (Line(), "All 6 runs finished"),
        (Line(grid=(128,)), "The run finished"),
        (Line(failed={768: "killed"}), "5 of 6 runs finished; 1 failed"),
        (
            Line(stopped={768: 9.0}, failed={640: "killed", 512: "killed"}),
            "3 of 6 runs finished; 2 failed and 1 was stopped",
        ),
    ],
)
def test_finding(tmp_path: Path, line: Line, finding: str) -> None:
    assert covered(tmp_path, line).finding == finding


def test_what_is_planned_and_not_there_is_counted(tmp_path: Path) -> None:
    found = covered(tmp_path, Line(), runs={"planned": 8, "done": 6})
    assert found.finding == "6 of 8 runs finished; 2 are not there"
    assert covered(tmp_path, runs={"planned": 0, "done": 0}).finding == "No run is planned or measured"


def test_grid_of_words_for_few_lengths(tmp_path: Path) -> None:
    line = Line(slow=(Slow(512, 512, 9.0),), failed={640: "killed"}, stopped={768: 300.0})
    found = covered(tmp_path, line, Line("gpt2", grid=(128, 256)))
    assert found.lengths == GRID
    assert [words for _, words in found.grid] == [
        ("normal", "normal", "normal", "slow", "failed", "stopped"),
        ("normal", "normal", "none", "none", "none", "none"),
    ]
    assert found.stretches == ()


def test_lengths_that_were_left_are_not_started_and_no_failures(tmp_path: Path) -> None:
    line = Line(stopped={384: 9.0, 512: 9.0}, failed={640: "beyond_memory", 768: "beyond_memory"})
    found = covered(tmp_path, line)
    assert found.finding == "2 of 6 runs finished; 2 were stopped and 2 were not started"
    assert found.grid[0][1][-2:] == ("not started", "not started")
    assert "memory guard had stopped two shorter lengths" in found.reasons[-1][2]


def test_stretches_of_words_for_many_lengths(tmp_path: Path) -> None:
    grid = tuple(range(16, 337, 16))
    found = covered(tmp_path, Line(grid=grid, slow=(Slow(160, 192, 9.0),)))
    ((_, stretches),) = found.stretches
    assert stretches == (("normal", "16–144 (9)"), ("slow", "160–192 (3)"), ("normal", "208–336 (9)"))


def test_reasons_are_grouped_and_say_what_was_disturbed(tmp_path: Path) -> None:
    line = Line(failed={640: "out_of_memory", 768: "out_of_memory"}, disturbed={128: "woke from sleep"})
    assert covered(tmp_path, line).reasons == (
        ("GPT-2 Medium, MPS", "128", "disturbed, but kept", "woke from sleep"),
        (
            "GPT-2 Medium, MPS",
            "640–768 (2)",
            "the device or the system had no memory left",
            "MPS backend out of memory (simulated)",
        ),
    )


def test_words_are_the_page_s(tmp_path: Path) -> None:
    study = read_study(simulate(tmp_path, [Line(verdict="undetermined", reason="3 budgets of the series are too few")]))
    assert study.curves[0].row["reason"] == "3 lengths of the curve are too few"


def test_unusable_files_are_named(tmp_path: Path) -> None:
    ((file, problem, message),) = covered(tmp_path, Line(failed={768: "failed"})).faults
    assert file.startswith("results/runs/")
    assert (problem, message) == ("unreadable", "the file ends early")
