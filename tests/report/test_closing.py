"""What is said when the report is built: of a busy machine first that it was, and the line that measures again."""

import json
import shlex
from pathlib import Path

from simulated import GRID, MACHINE, STACK, Line, simulate

from speedbump.grid.study import read_call
from speedbump.report.closing import closing_lines
from speedbump.report.page import measure_again
from speedbump.report.study import read_study
from speedbump.report.summary import summarise

CONFIG = "config/config.yaml"
REASON = "the machine was busy while this was measured: 6 of 6 cells disturbed"
FLAGS = dict.fromkeys(GRID, "the sentinel took 12.0 times its best")
BUSY = Line("distilgpt2", "cpu", verdict="undetermined", reason=REASON, disturbed=FLAGS, busy=True)


def close(folder: Path, *lines: Line) -> tuple[list[str], str]:
    """The closing lines of a study of these curves, and the line on its page that measures again."""
    about = {"file": CONFIG, "machine": MACHINE, "stacks": [STACK]}
    study = read_study(simulate(folder, list(lines), **about))
    (folder / "site").mkdir()
    (folder / "site" / "summary.json").write_text(json.dumps(summarise(study)))
    return closing_lines(folder, CONFIG), measure_again(study)


def test_a_busy_machine_is_told_first_with_the_line_that_measures_again(tmp_path: Path) -> None:
    lines, on_page = close(tmp_path, BUSY)
    assert lines[0].startswith("The machine was busy while DistilGPT-2 on the CPU was measured: 6 of 6 runs disturbed")
    told, _, command = lines[1].partition(": ")
    assert told == "6 cells failed or disturbed; to measure again, each once the machine is quiet or after 10 min"
    assert command.startswith("snakemake --cores 1 --config patience_s=600 -R $(python scripts/list_repeats.py ")
    assert on_page.startswith(
        "snakemake --cores 1 --config patience_s=600 -R $(python scripts/list_repeats.py results/"
    )


def test_a_few_runs_are_named(tmp_path: Path) -> None:
    lines, _ = close(tmp_path, Line("gpt2", "cpu", disturbed={128: "swap"}))
    assert lines[1].startswith("1 cell failed or disturbed; to measure again: snakemake --cores 1 -R results/runs/")


def test_a_quiet_machine_needs_no_line(tmp_path: Path) -> None:
    lines, on_page = close(tmp_path, Line("gpt2", "cpu"))
    assert not any("measure again" in line for line in lines)
    assert on_page == ""


def test_the_patience_is_one_that_the_pipeline_takes(tmp_path: Path) -> None:
    lines, _ = close(tmp_path, BUSY)
    words = shlex.split(lines[1].partition(": ")[2].split("$(")[0])
    key, value = words[words.index("--config") + 1].split("=")
    assert read_call({key: int(value)}).patience_s == 600
