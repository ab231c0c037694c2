"""What a Mac does to a study, from simulated counters and a simulated worker's output through to the page."""

import html
import os
import re

import polars as pl
import pytest

from .simulated_mac import GIB, SLOW, install
from .simulated_worker import NVIDIA_SMI

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/mac.yaml"


@pytest.fixture(scope="module")
def reported(new_project, tmp_path_factory):
    project = new_project("mac")
    install(project)
    folder = tmp_path_factory.mktemp("tools")
    tool = folder / "nvidia-smi"
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    outcome = project.run(study=STUDY, env={"PATH": f"{folder}:{os.environ['PATH']}", "TMPDIR": str(folder)})
    assert outcome.status == 0, outcome.text
    return project


def table(project, name):
    return pl.read_parquet(project.root / f"results/studies/mac/{name}.parquet")


def words(project):
    """The page's text, without tags."""
    text = (project.root / "results/studies/mac/site/index.html").read_text()
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def test_a_regime_that_swaps_is_a_slow_regime(reported):
    """It was undetermined, because the machine was disturbed: by the regime itself."""
    cells = table(reported, "cells").filter(n_prompt=5)
    within = cells.filter(pl.col("n_gen").is_between(*SLOW))
    assert within["own_swap_bytes"].to_list() == [GIB] * within.height
    assert not cells["disturbed"].drop_nulls().str.contains("swap").any()
    series = table(reported, "series").filter(n_prompt=5).row(0, named=True)
    assert (series["verdict"], series["n_regimes"]) == ("slow regimes", 1)
    regime = table(reported, "regimes").filter(series=series["series"], accepted=True).row(0, named=True)
    assert (regime["first_slow"], regime["last_slow"]) == SLOW
    assert "needed more memory than was free: its own processes made the machine swap" in words(reported)


def test_a_fault_that_torch_swallows_is_told_and_gives_no_latency(reported):
    failed = table(reported, "requests").filter(n_prompt=9, n_gen=496).sort("request")
    first, second, *rest = failed["status"]
    assert (first, second) == ("ok", "device_lost")
    assert set(rest) <= {
        "device_lost",
        "not_run",
    }  # those that were answered before the worker was ended, and the others
    assert (
        496 not in table(reported, "budgets").join(table(reported, "series").filter(n_prompt=9), on="series")["n_gen"]
    )
    said = "Impacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)"
    assert f"a GPU command failed unnoticed by torch: {said}" in words(reported)


def test_tokens_that_differ_are_told_and_give_no_latency(reported):
    odd = table(reported, "requests").filter(n_prompt=9, n_gen=528)
    assert odd["status"].to_list() == ["inconsistent"] * 6
    assert (
        528 not in table(reported, "budgets").join(table(reported, "series").filter(n_prompt=9), on="series")["n_gen"]
    )
    assert "2 different outputs in 6 requests of this length" in words(reported)


def test_the_failed_are_measured_again_and_what_swapped_is_not(reported):
    disturbed = table(reported, "cells").filter(pl.col("disturbed").is_not_null())["cell"]
    listed = reported.script("scripts/list_repeats.py", "results/studies/mac").stdout.split()
    failed = table(reported, "cells").filter(pl.col("outcome").is_in(["device_lost", "inconsistent"]))["cell"]
    assert failed.len() == 2
    assert {file.rsplit("/", 1)[1].removesuffix(".parquet") for file in listed} == {*failed, *disturbed}
