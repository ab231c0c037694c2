"""Files of the working directory and of the code, and the commands that name them."""

import shlex
from pathlib import Path

import pytest

from speedbump.grid.study import read_study
from speedbump.plan.location import code_folder, find_file, library, with_found_files
from speedbump.plan.next_study import published_command, run_command
from speedbump.plan.shell import with_users_threads, words

ROOT = Path(__file__).parents[2]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A working directory that is not the code's."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_beside_the_code_every_path_is_as_it_is_named(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert code_folder() == Path()
    assert find_file("config/scan.yaml") == "config/scan.yaml"
    assert "scripts/speedbump/plan/catalogue.py" in library()
    assert run_command("config/config.yaml") == "snakemake --cores 1"
    assert run_command("config/scan.yaml", "-R", "x") == "snakemake --cores 1 --configfile config/scan.yaml -R x"


def test_a_file_of_the_working_directory_comes_before_the_codes(elsewhere):
    assert Path(find_file("config/scan.yaml")).resolve() == ROOT / "config/scan.yaml"
    assert find_file("config/nowhere.yaml") == "config/nowhere.yaml"
    (elsewhere / "config").mkdir()
    (elsewhere / "config/scan.yaml").touch()
    assert find_file("config/scan.yaml") == "config/scan.yaml"
    assert Path(find_file("config/models")).resolve() == ROOT / "config/models"
    assert all(Path(file).resolve().is_relative_to(ROOT) for file in library("analyse"))


def test_a_study_names_files_of_either_place(elsewhere):
    (elsewhere / "lengths.csv").write_text("n_gen\n8\n")
    experiment = {"name": "scan", "order": "replay", "lifetime": "persistent", "workload": "lengths.csv"}
    bundle = "config/bundles/paper.amd-epyc-24gb.zip"
    given = {"study": "s", "title": "S", "models": "tests/models", "bundles": [bundle], "experiments": [experiment]}
    study = with_found_files(read_study(given, "s.yaml"))
    assert study.experiments[0].workload == "lengths.csv"
    assert [Path(file).resolve() for file in (study.models, *study.bundles)] == [ROOT / "tests/models", ROOT / bundle]


def test_a_command_for_the_terminal_names_the_code_and_one_for_a_report_does_not(elsewhere):
    snakefile = str(code_folder() / "Snakefile")
    assert shlex.split(run_command("config/config.yaml")) == ["snakemake", "-s", snakefile, "--cores", "1"]
    assert Path(snakefile).resolve() == ROOT / "Snakefile"
    assert run_command(find_file("config/config.yaml")) == run_command("config/config.yaml"), "the default is found"
    assert published_command("config/scan.yaml") == "snakemake --cores 1 --configfile config/scan.yaml"


def test_words_reach_the_program_as_they_are():
    assert words("a b", "{c}") == "'a b' '{{c}}'"


def test_a_measured_process_has_its_users_threads_and_not_snakemakes():
    command = with_users_threads({"OMP_NUM_THREADS": "8", "HOME": "/"})
    assert command[0] == "env"
    assert "-uOMP_NUM_THREADS" in command
    assert "-uMKL_NUM_THREADS" in command
    assert command[-1] == "OMP_NUM_THREADS=8"
