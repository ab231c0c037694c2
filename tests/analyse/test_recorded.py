"""Real noise: recorded curves of devices without slow regimes must show none."""

import math
from pathlib import Path

import polars as pl
import pytest

from speedbump.analyse.bundle import read_bundle
from speedbump.analyse.mechanism.judge import judge_study
from speedbump.analyse.regimes import find_regimes
from speedbump.tables import MEMORY_SAMPLES, REQUESTS, read_table

RECORDED = Path(__file__).parents[1] / "recorded"
BUNDLES = Path(__file__).parents[2] / "config" / "bundles"


def findings(name):
    return find_regimes(read_table(RECORDED / f"{name}.parquet", REQUESTS))


def test_a_real_gpu_has_no_slow_regime():
    found = findings("nvidia-h200")
    assert found.series.height == 4
    assert set(found.series["verdict"]) == {"smooth"}
    medium = found.series.filter(pl.col("model") == "gpt2-medium").row(0, named=True)
    assert (medium["n_budgets"], medium["n_gen_min"], medium["n_gen_max"]) == (21, 128, 768)


@pytest.mark.parametrize("bundle", sorted(BUNDLES.glob("*.zip")), ids=lambda path: path.name.split(".")[0])
def test_the_published_example_has_no_slow_regime(bundle):
    """H200s of shared hosts, whose neighbouring budgets lie up to 1.6 times apart a token, and a CPU."""
    runs, _ = read_bundle(bundle)
    found = find_regimes(runs.requests)
    assert not found.regimes["accepted"].any()
    whole = found.series.filter(pl.col("n_budgets") >= 6)
    assert set(whole["verdict"]) == {"smooth"}
    assert whole.height >= 1


def test_whatever_computes_them_the_published_examples_tokens_are_the_same():
    """With the cache, without it, static, as a CUDA graph or compiled; on an H200 and on a CPU; every request."""
    requests = pl.concat([read_bundle(bundle)[0].requests for bundle in BUNDLES.glob("*.zip")]).filter(status="ok")
    assert requests["tokens_hash"].null_count() == 0
    tokens = (
        requests.filter(dtype="float32")
        .group_by("model", "n_prompt", "n_gen")
        .agg(pl.col("tokens_hash", "cell").n_unique(), pl.col("device", "kv_cache", "compile").unique())
    )
    assert set(tokens["tokens_hash"]) == {1}
    assert tokens.filter(pl.col("cell") > 1).height == 28
    assert tokens.filter(pl.col("device").list.len() == 2).height == 12  # two models, six budgets
    medium = tokens.filter(model="gpt2-medium", n_prompt=65, n_gen=768).row(0, named=True)
    assert set(medium["kv_cache"]) == {"dynamic", "static", "off"}
    assert set(medium["compile"]) == {"none", "cuda_graph", "inductor"}


def test_the_small_models_are_smooth_on_a_cpu():
    found = find_regimes(read_bundle(BUNDLES / "paper.amd-epyc-24gb.zip")[0].requests).series
    assert set(found.select("model", "device", "verdict").rows()) == {
        ("distilgpt2", "cpu", "smooth"),
        ("gpt2", "cpu", "smooth"),
    }


def test_on_a_real_gpu_a_regime_of_the_papers_size_would_be_found():
    """The same noise with the paper's regime laid over it."""
    requests = read_table(RECORDED / "nvidia-h200.parquet", REQUESTS)
    inside = (pl.col("model") == "gpt2-medium") & pl.col("n_gen").is_between(512, 624)
    slowed = requests.with_columns(e2e_s=pl.when(inside).then(pl.col("e2e_s") * 9).otherwise("e2e_s"))
    found = find_regimes(slowed)
    (regime,) = found.regimes.filter(pl.col("accepted")).iter_rows(named=True)
    assert (regime["onset_low"], regime["onset_high"]) == (480, 512)
    assert (regime["recovery_low"], regime["recovery_high"]) == (608, 640)
    assert regime["slowdown_low"] < 9 < regime["slowdown_high"]


def test_an_idle_cpu_has_no_slow_regime():
    (series,) = findings("idle-cpu").series.iter_rows(named=True)
    assert (series["verdict"], series["n_budgets"]) == ("smooth", 8)


def test_a_busy_machine_is_not_a_slow_regime():
    (series,) = findings("busy-cpu").series.iter_rows(named=True)
    assert series["verdict"] == "undetermined"
    assert "busy" in series["reason"]


def test_the_arms_of_a_quiet_cpu_leave_nothing_to_explain_and_say_what_each_costs():
    """The prices are held against the plain ratio of medians, length by length."""
    requests = read_table(RECORDED / "arms" / "quiet-cpu.parquet", REQUESTS)
    found = find_regimes(requests)
    assert set(found.series["verdict"]) == {"smooth"}
    assert requests["disturbed"].null_count() == requests.height
    judged = judge_study(requests, MEMORY_SAMPLES.schema.to_frame(), found.series, found.budgets, found.regimes)
    assert set(judged.hypotheses["verdict"]) == {"nothing to explain"}
    medians = requests.filter(phase="measured").group_by("series", "n_gen").agg(pl.col("e2e_s").median())
    prices = {row["series"]: row for row in judged.mitigations.iter_rows(named=True)}
    assert len(prices) == 10
    for series, row in prices.items():
        if row["axis"] == "n_prompt":
            continue  # another length of prompt is another amount of work
        arm, plain = (medians.filter(series=name).sort("n_gen") for name in (series, row["reference"]))
        both = arm.join(plain, on="n_gen", suffix="_plain")
        ratio = (both["e2e_s"] / both["e2e_s_plain"]).log().mean()
        assert row["price"] == pytest.approx(math.exp(ratio), rel=0.05)
    no_cache = next(series for series, row in prices.items() if (row["axis"], row["value"]) == ("kv_cache", "off"))
    assert prices.pop(no_cache)["price_low"] > 2
    assert all(row["price_low"] < 1 < row["price_high"] for row in prices.values())
    assert all(abs(row["price"] - 1) < 0.05 for row in prices.values())


def test_in_half_precision_a_gpu_need_not_repeat_its_tokens():
    """Why differing tokens count against a request in float32 alone: here each cell has some, and none is at fault."""
    bundle, _ = read_bundle(BUNDLES / "gpu.intel-xeon-126gb_nvidia-h200.zip")
    half = bundle.requests.filter(pl.col("dtype") != "float32").group_by("cell").agg(pl.col("tokens_hash").n_unique())
    assert half.height == 10
    assert half["tokens_hash"].min() > 1


@pytest.mark.parametrize("bundle", sorted(BUNDLES.glob("*.zip")), ids=lambda bundle: bundle.stem)
def test_no_published_request_is_inconsistent(bundle):
    assert "inconsistent" not in read_bundle(bundle)[0].requests["status"]
