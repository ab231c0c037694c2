"""What the command line says when the report is built."""

import json
import shlex
from pathlib import Path

from speedbump.analyse.repeats import repeat_command, runs_to_repeat
from speedbump.grid.estimate import in_words
from speedbump.plan.location import code_folder, find_file
from speedbump.plan.next_study import run_command
from speedbump.tables import FAULTS, read_table

MOST_NAMED = 5


def closing_lines(folder: Path, configfile: str) -> list[str]:
    """The report's path, its verdict, the cells worth measuring again, and the next command worth running.

    folder: the study's, with its tables and site.
    """
    study = json.loads((folder / "study.json").read_text())
    if (folder / "upgrade.json").exists():
        return _check_lines(folder, configfile)
    summary = json.loads((folder / "site" / "summary.json").read_text())
    lines = [summary["verdict"], *([summary["upgrade"]] if summary.get("upgrade") else [])]
    again = runs_to_repeat(folder)
    if again and not study["partial"]:
        count = f"{len(again)} cell{'s' * (len(again) != 1)} failed or disturbed; to measure again: "
        if len(again) <= MOST_NAMED:
            lines.append(count + repeat_command(again, configfile))
        else:
            lines.append(f"{count}{repeat_command([], configfile)} {_listed_by_script(folder)}")
    faults = read_table(folder / "faults.parquet", FAULTS)
    lines += [f"refused bundle: {message}" for message in faults.filter(problem="refused bundle")["message"]]
    for file, message in faults.filter(problem="no environment").select("file", "message").iter_rows():
        lines.append(f"no environment of {message}; to try again: {repeat_command([file], configfile)}")
    if study["next_command"]:
        lines.append(f"next, about {in_words(study['next_hours'] * 3600)}: {run_command(find_file(study['suggests']))}")
    return [*lines, f"report: {folder / 'site' / 'index.html'}"]


def _listed_by_script(folder: Path) -> str:
    """The shell's words for the runs worth measuring again, where they are too many to name."""
    return f"$(python {shlex.join([str(code_folder() / 'scripts/list_repeats.py'), str(folder)])})"


def _check_lines(folder: Path, configfile: str) -> list[str]:
    """What an upgrade's check found: a line for each curve, and how to measure all of it."""
    check = json.loads((folder / "upgrade.json").read_text())
    lines = [f"{check['new']} against {check['old']}"]
    lines += [f"{curve['name']}: {curve['verdict']}: {curve['sentence']}" for curve in check["curves"]]
    lines += [f"next: {curve['next']} ({curve['name']})" for curve in check["curves"] if curve["next"]]
    again = runs_to_repeat(folder)
    if again:
        count = f"{len(again)} cell{'s' * (len(again) != 1)} failed or disturbed; to measure again: "
        command = run_command(configfile, "--config", "check=true", "-R")
        lines.append(f"{count}{command} {_listed_by_script(folder)}")
    return [*lines, f"the full run, which takes up what was measured: {run_command(configfile)}"]
