"""What the command line says when the report is built."""

import json
from pathlib import Path

from speedbump.analyse.repeats import PATIENCE_S, patient_line, repeat_command, repeat_line, runs_to_repeat
from speedbump.grid.estimate import in_words
from speedbump.plan.location import find_file
from speedbump.plan.next_study import run_command
from speedbump.tables import FAULTS, read_table


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
        busy = any(curve.get("busy") for curve in summary["curves"])
        lines.append(_again(again, configfile, folder, busy))
    faults = read_table(folder / "faults.parquet", FAULTS)
    lines += [f"refused bundle: {message}" for message in faults.filter(problem="refused bundle")["message"]]
    for file, message in faults.filter(problem="no environment").select("file", "message").iter_rows():
        lines.append(f"no environment of {message}; to try again: {repeat_command([file], configfile)}")
    if study["next_command"]:
        lines.append(f"next, about {in_words(study['next_hours'] * 3600)}: {run_command(find_file(study['suggests']))}")
    return [*lines, f"report: {folder / 'site' / 'index.html'}"]


def _check_lines(folder: Path, configfile: str) -> list[str]:
    """What an upgrade's check found: a line for each curve, and how to measure all of it."""
    check = json.loads((folder / "upgrade.json").read_text())
    lines = [f"{check['new']} against {check['old']}"]
    lines += [f"{curve['name']}: {curve['verdict']}: {curve['sentence']}" for curve in check["curves"]]
    lines += [f"next: {curve['next']} ({curve['name']})" for curve in check["curves"] if curve["next"]]
    again = runs_to_repeat(folder)
    if again:
        busy = any(curve.get("busier") for curve in check["curves"])
        lines.append(_again(again, configfile, folder, busy, "check=true"))
    return [*lines, f"the full run, which takes up what was measured: {run_command(configfile)}"]


def _again(files: list[str], configfile: str, folder: Path, busy: bool, *options: str) -> str:
    """How to measure these runs again; where the machine was busy, each once it is quiet."""
    count = f"{len(files)} cell{'s' * (len(files) != 1)} failed or disturbed; to measure again"
    if busy:
        line = patient_line(files, configfile, folder, *options)
        return f"{count}, each once the machine is quiet or after {in_words(PATIENCE_S)}: {line}"
    return f"{count}: {repeat_line(files, configfile, folder, *options)}"
