"""Lengths that a limit stopped before their normal time, through real Snakemake, supervisor and report."""

import json

import polars as pl
import pytest

from .simulated_worker import install_stand_ins

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/stopped.yaml"


def test_a_curve_that_was_stopped_is_not_called_smooth(fresh, tmp_path):
    environment = install_stand_ins(tmp_path, fresh) | {"SIMULATED_NEVER_FROM": "40", "SIMULATED_PAUSE_S": "0.05"}
    # 0.42 s at 40 tokens, were it to end: far below what is stopped after a second, so the bound would be slow
    fresh.edit("scripts/speedbump/measure/worker.py", "0.02 + 0.01 * factor", "0.2 + 0.1 * factor")
    outcome = fresh.run(study=STUDY, env=environment)
    assert outcome.status == 0, outcome.text
    folder = fresh.root / "results/studies/stopped"
    series = pl.read_parquet(folder / "series.parquet").row(0, named=True)
    assert series["verdict"] == "undetermined"
    assert series["reason"] == "from 40 tokens nothing finished, stopped by the request limit of 1 s"
    assert (series["n_budgets"], series["stopped_from"]) == (4, 40)
    told = "cannot be told: from 40 tokens nothing finished, stopped by the request limit of 1 s"
    assert told in json.loads((folder / "site/summary.json").read_text())["verdict"]
    page = (folder / "site/index.html").read_text()
    assert told in page
    assert page.index(told) < page.index("<table")
    assert told in outcome.text
