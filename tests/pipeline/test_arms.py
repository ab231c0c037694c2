"""The mechanism study in little, through the real pipeline: every kind of arm, in blocks."""

import polars as pl
import pytest

from speedbump.tables import PROFILES, REQUESTS, read_table

pytestmark = pytest.mark.pipeline

STUDY = "tests/studies/arms.yaml"
CELLS = {"reference": 4, "cache": 1, "life": 1, "predecessor": 1, "total": 2, "profile": 2}


@pytest.fixture(scope="module")
def study(new_project):
    project = new_project("arms")
    return project, project.run(study=STUDY)


def test_it_says_what_it_is_around_and_what_each_arm_takes(study):
    _, outcome = study
    assert outcome.status == 0, outcome.text
    assert outcome.jobs["measure_cell"] == sum(CELLS.values())
    assert "around tinier on cpu, from the study: slow at 16, normal at 8, 24" in outcome.text
    assert "ballast: ballast_gb only on request, limits: {allow_ballast: true}; its cells are left out" in outcome.text
    for name, count in CELLS.items():
        assert f"speedbump: {name}: {count} cell{'s' * (count > 1)}, 0 done, about " in outcome.text


def requests_of(project):
    return read_table(project.root / "results/studies/arms/requests.parquet", REQUESTS)


def test_blocks_come_one_after_the_other(study):
    requests = requests_of(study[0])
    started = requests.group_by("cell").agg(pl.col("process").first(), pl.col("started_at").min()).sort("started_at")
    assert started["process"].to_list() == sorted(started["process"])
    assert set(started["process"]) == {1, 2}


def test_every_arm_differs_from_the_reference_in_one_thing(study):
    rows = requests_of(study[0]).filter(pl.col("phase") == "measured")
    assert set(rows["status"]) == {"ok"}
    assert set(rows["instrument"]) == {"step_sync", "profile"}
    arms = rows.select("kv_cache", "lifetime", "predecessor", "n_prompt", "instrument").unique().rows()
    reference = ("dynamic", "fresh", "ended", 5, "step_sync")
    assert sorted(sum(a != b for a, b in zip(arm, reference, strict=True)) for arm in arms) == [0, 1, 1, 1, 1, 1]
    total = rows.filter(pl.col("n_prompt") == 3)
    assert {*(total["n_prompt"] + total["n_gen"])} == {5 + 8, 5 + 16}
    replay = rows.filter(pl.col("lifetime") == "persistent").sort("request")["n_gen"].to_list()
    assert sorted(replay) == sorted([8, 16, 24] * 3) != replay
    same = rows.filter((pl.col("n_gen") == 16) & (pl.col("n_prompt") == 5))
    assert same["tokens_hash"].n_unique() == 1


def test_a_profile_is_in_no_curve(study):
    folder = study[0].root / "results/studies/arms"
    profiles = read_table(folder / "profiles.parquet", PROFILES)
    assert set(profiles["n_gen"]) == {8, 16}
    profiled = requests_of(study[0]).filter(pl.col("instrument") == "profile")
    assert set(profiles["series"]) == set(profiled["series"])
    for table in ("series", "budgets", "regimes"):
        assert not set(profiles["series"]) & set(pl.read_parquet(folder / f"{table}.parquet")["series"])
    assert "no slow length was profiled; operators at 16 and 8 tokens" in (folder / "site/index.html").read_text()


def test_again_nothing_is_measured(study):
    assert "measure_cell" not in study[0].run("-n", study=STUDY).jobs
