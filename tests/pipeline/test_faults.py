"""What users' machines do to a run: kills, interrupts, broken files, two runs at once, no room to write."""

import os
import signal
import subprocess

import polars as pl
import psutil
import pytest

from speedbump.measure.best import NOTES

from .conftest import STUDY, kill_group, wait_until

pytestmark = pytest.mark.pipeline


def make_slow(project):
    """Cells that take long enough to be hit in the middle."""
    project.edit(STUDY, "repeats: 2", "repeats: 300")
    project.edit(STUDY, "n_gen: 8-24+8", "n_gen: [8, 400]")


def workers(project):
    """Processes that run this project's measuring code."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        command = " ".join(process.info["cmdline"] or [])
        if "speedbump/measure" in command and str(project.root) in (process.info["cwd"] or "") + command:
            found.append(process)
    return found


def hidden_halves(project):
    """Files beside the runs that are neither runs nor the notes on sentinels."""
    files = (file for file in (project.root / "results/runs").rglob("*") if file.is_file())
    return [file for file in files if file.suffix != ".parquet" and file.name != NOTES]


def test_killed_in_mid_cell_the_worker_ends_and_the_documented_line_recovers(project):
    make_slow(project)
    before = {run: run.read_bytes() for run in project.runs}
    running = project.start()
    wait_until(lambda: workers(project))
    kill_group(running)
    running.communicate()
    wait_until(lambda: not workers(project), 30)
    assert {run: run.read_bytes() for run in project.runs} == before
    assert hidden_halves(project) == []
    assert project.run("-n").status == 0  # a dry run needs no lock
    locked = project.run()
    assert locked.status != 0
    assert "unlock" in locked.text
    project.edit(STUDY, "repeats: 300", "repeats: 1")
    assert project.run("--unlock").status == 0
    outcome = project.run()
    assert outcome.status == 0, outcome.text
    assert {run: run.read_bytes() for run in project.runs if run in before} == before


def test_snakemake_alone_killed_takes_its_worker_with_it_or_lets_it_finish_its_file(project):
    """kill -9 of Snakemake alone leaves the supervisor: it must end, or write a whole file."""
    make_slow(project)
    running = project.start()
    wait_until(lambda: workers(project))
    running.kill()
    wait_until(lambda: not workers(project), 120)
    running.communicate()
    assert hidden_halves(project) == []
    for run in project.runs:
        pl.read_parquet(run)


def test_interrupted_with_ctrl_c_it_goes_on_where_it_was(project):
    make_slow(project)
    before = set(project.runs)
    running = project.start()
    wait_until(lambda: workers(project))
    kill_group(running, signal.SIGINT)
    text, _ = running.communicate(timeout=120)
    assert running.returncode != 0
    assert "Traceback" not in text
    wait_until(lambda: not workers(project), 30)
    assert hidden_halves(project) == []
    assert before <= set(project.runs)
    project.edit(STUDY, "repeats: 300", "repeats: 1")
    outcome = project.run()
    assert outcome.status == 0, outcome.text


def test_a_truncated_file_is_named_and_the_printed_line_measures_it_again(project):
    broken = project.runs[1]
    os.truncate(broken, broken.stat().st_size // 2)
    outcome = project.run("--forcerun", "collect_requests")
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == 0
    faults = pl.read_parquet(project.root / "results/studies/tiny/faults.parquet")
    assert faults.select("cell", "problem").rows() == [(broken.stem, "unreadable")]
    assert pl.read_parquet(project.root / "results/studies/tiny/cells.parquet").height == 2
    line = next(line for line in outcome.text.splitlines() if "to measure again" in line)
    arguments = line.split("snakemake --cores 1 ")[1].split()
    assert arguments[:2] == ["--configfile", STUDY]
    if "patience_s=600" in arguments:  # where something on this machine disturbed most cells: the test does not wait
        arguments[arguments.index("patience_s=600")] = "patience_s=1"
    named = arguments[arguments.index("-R") + 1 :]
    assert str(broken.relative_to(project.root)) in named  # beside it, cells that something on this machine disturbed
    again = project.run(*arguments, study=None)
    assert again.status == 0, again.text
    assert again.jobs["measure_cell"] == len(named)
    assert pl.read_parquet(broken).height == 3
    assert pl.read_parquet(project.root / "results/studies/tiny/faults.parquet").is_empty()


def test_two_at_once_the_second_says_so(project):
    make_slow(project)
    running = project.start()
    try:
        wait_until(lambda: workers(project))
        second = project.run()
        assert second.status != 0
        assert "lock" in second.text.lower()
        assert len(workers(project)) <= 2
    finally:
        kill_group(running, signal.SIGINT)
        running.communicate(timeout=120)


def test_a_partial_report_while_measuring_goes_on(project):
    make_slow(project)
    running = project.start()
    try:
        wait_until(lambda: workers(project))
        partial = project.run("--nolock", "--config", "partial=true")
        assert partial.status == 0, partial.text
        assert partial.jobs["measure_cell"] == 0
        assert (project.root / "results/studies/tiny/partial/site/index.html").exists()
    finally:
        kill_group(running, signal.SIGINT)
        running.communicate(timeout=120)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_results_that_cannot_be_written_are_one_line(fresh):
    (fresh.root / "results").write_text("not a folder")
    outcome = fresh.run()
    assert outcome.status != 0
    assert "Traceback" not in outcome.text
    assert "results" in outcome.text


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("model: tiny", "model: tinny", "experiments[scan].model: 'tinny' is not known; did you mean 'tiny'?"),
        ("n_gen: 8-24+8", "n_gen: 24-8+8", "experiments[scan].n_gen: '24-8+8' falls: write the smaller number first"),
        ("repeats: 2", "repeat: 2", "protocol.repeat: unknown key; did you mean 'repeats'?"),
    ],
)
def test_a_mistake_in_a_study_is_one_line_before_any_job(fresh, old, new, line):
    fresh.edit(STUDY, old, new)
    outcome = fresh.run()
    assert outcome.status != 0
    said = [text for text in outcome.text.splitlines() if "speedbump" in text]
    assert said == [f"speedbump: {STUDY}: {line}"], outcome.text
    assert "Traceback" not in outcome.text
    assert not outcome.jobs


def test_two_studies_at_once_are_refused(fresh):
    command = [*fresh.command(study=None), "--configfile", STUDY, "config/config.yaml"]
    done = subprocess.run(command, cwd=fresh.root, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "speedbump: --configfile: two studies at once would be merged into one; give one" in done.stderr
