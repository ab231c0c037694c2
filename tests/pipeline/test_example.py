"""The published example, as the workflow that publishes it builds it: from recorded runs alone."""

import os
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = "config/example.yaml"
H200, CPU = "intel-xeon-252gb_2x-nvidia-h200", "amd-epyc-24gb"


@pytest.fixture(scope="module")
def example(new_project):
    project = new_project("example")
    outcome = project.run(study=EXAMPLE)
    assert outcome.status == 0, outcome.text
    assert not outcome.jobs["measure_cell"]
    return project


def test_it_can_be_published(example):
    checked = example.script("scripts/check_site.py", "results/studies/example/site")
    assert (checked.returncode, checked.stdout) == (0, "")


def test_the_claim_on_cuda_holds_and_that_on_the_cpu_lacks_the_large_models(example):
    claims = pl.read_parquet(example.root / "results/studies/example/claims.parquet").filter(origin="measured")
    outcomes = {(row["claim_id"], row["machine"].partition("~")[0]): row for row in claims.to_dicts()}
    assert outcomes["C14", H200]["outcome"] == "holds"
    assert outcomes["C13", CPU]["outcome"] == "can't tell"
    assert outcomes["C13", CPU]["why"] == "distilgpt2: smooth; gpt2: smooth; without gpt2-medium, gpt2-large"


def test_a_bundle_replaced_by_an_older_file_is_read(example, tmp_path):
    """As one is that was downloaded before the report was built, and moved here after."""
    project = example.copy(tmp_path / "project")
    place = project.root / "config/bundles" / f"paper.{CPU}.zip"
    place.unlink()
    gpu = project.root / "config/bundles" / f"gpu.{H200}.zip"
    shutil.copy(gpu, place)
    os.utime(place, (gpu.stat().st_mtime - 3600,) * 2)
    outcome = project.run("results/studies/example/cells.parquet", study=EXAMPLE)
    assert (outcome.status, outcome.jobs["collect_requests"]) == (0, 1), outcome.text
    assert CPU not in set(pl.read_parquet(project.root / "results/studies/example/cells.parquet")["machine"])


def test_a_study_without_own_runs_makes_no_bundle(example):
    refused = example.script("scripts/make_bundle.py", "results/studies/example")
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert "results/studies/example: has no runs that were measured on this machine" in line
    assert not list(example.root.glob("results/machines/*/origin.txt"))


def test_the_readme_says_what_its_report_says(example):
    """A step on the H200, as Python drives it and as one CUDA graph; and what would have been seen."""
    page = (example.root / "results/studies/example/site/index.html").read_text()
    plain, graph = re.search(
        r"A step of GPT-2 Medium takes ([^;]+); as one CUDA graph it takes ([^<]+)\.", page
    ).groups()
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"a step of GPT-2 Medium took {plain}, and {graph} as one CUDA graph" in readme
    series = pl.read_parquet(example.root / "results/studies/example/series.parquet")
    grid = series.filter(pl.col("model").str.contains("gpt2"), device="cuda", instrument="step_sync", n_prompt=65)
    assert grid.height == 4
    inner, ends = (max(grid[name]) for name in ("noticed", "noticed_ends"))
    noticed = (
        f"a slow-down of {inner:.1f} times at a length between the ends, or of {ends:.1f} times at the ends, would"
    )
    assert f"{noticed} have been noticed" in readme
