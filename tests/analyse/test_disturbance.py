"""Disturbance decides first: what was measured while the machine did something else is not judged, and the rest is."""

import math
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.requests import Run, requests_table
from speedbump.analyse.cells import summarise_cells
from speedbump.analyse.claims.check import check_claims, read_claims
from speedbump.analyse.claims.measured import Measured, measured_evidence
from speedbump.analyse.comparisons import compare_series
from speedbump.analyse.mechanism.arms import read_curves
from speedbump.analyse.mechanism.judge import judge_study
from speedbump.analyse.refinement import plan_round
from speedbump.analyse.regimes import find_regimes
from speedbump.analyse.sentinels import LEVELS, with_best, with_disturbances
from speedbump.grid.study import Refinement
from speedbump.tables import MEMORY_SAMPLES, REQUESTS, read_table

CASES = Path(__file__).parent / "data" / "cases"
REFERENCE = Path(__file__).parents[2] / "config" / "reference"
REST_S = 0.03
GRID = range(128, 769, 64)
KNOWN = {"sentinel_best_s": REST_S, "host_sentinel_best_s": 0.02}


def run(n_gen, level=1.0, slow=1.0, process=1, series="s", **changes):
    """A cell of five requests; the device's sentinel took ``level`` times what it takes at rest."""
    seconds = (0.1 + 0.01 * n_gen) * slow
    told = {"sentinel_before_s": REST_S * level, "host_sentinel_before_s": 0.02, **changes}
    latencies = tuple(seconds * (1 + 0.01 * k) for k in range(-2, 3))
    return Run(series, n_gen, latencies, process=process, changes=tuple(told.items()))


def curve(load, **changes):
    """A curve of which ``load``, by length, slowed down both the sentinel and the requests."""
    return requests_table(run(n, load.get(n, 1.0), load.get(n, 1.0), **changes) for n in GRID)


def verdict(requests):
    return find_regimes(requests).series.row(0, named=True)


def test_a_first_look_beside_two_busy_processes():
    found = find_regimes(read_table(CASES / "busy-machine.parquet", REQUESTS))
    row = found.series.row(0, named=True)
    assert row["verdict"] == "undetermined"
    assert row["reason"] == (
        "the machine was busy while this was measured: 9 of 10 cells disturbed, the fixed workload took 12 times as "
        "long as at rest"
    )
    assert row["next"] == "Measure again while the machine has nothing else to do."
    assert (row["n_cells"], row["n_disturbed"], row["busy"], row["n_regimes"]) == (10, 9, True, 0)
    assert row["noticed"] is None
    assert found.regimes.is_empty()
    assert set(found.budgets["state"]) == {"unclear"}
    assert found.budgets.filter(~pl.col("disturbed"))["n_gen"].to_list() == [72]


def test_a_load_in_the_middle_is_no_regime_and_the_rest_is_judged():
    found = find_regimes(curve(dict.fromkeys((384, 448), 5.0)))
    row = found.series.row(0, named=True)
    assert (row["verdict"], row["busy"], row["n_disturbed"]) == ("undetermined", False, 2)
    assert (
        row["reason"] == "the machine was busy at 384 and 448 tokens, which took longer than the others lead to expect"
    )
    assert row["next"].startswith("Measure 384 and 448 again: the machine was busy there.")
    assert found.regimes.is_empty()
    assert dict(found.budgets.select("n_gen", "state").rows()) == {
        n: "unclear" if n in (384, 448) else "normal" for n in GRID
    }


@pytest.mark.parametrize("first", [True, False], ids=["ends", "begins"])
def test_a_load_that_ends_or_begins_within_a_curve(first):
    """Lengths are measured in their order here, so that the load is on one end of the curve."""
    loaded = list(GRID)[:4] if first else list(GRID)[-4:]
    row = verdict(curve(dict.fromkeys(loaded, 6.0)))
    assert row["verdict"] == "undetermined"
    assert row["reason"].startswith("the machine was busy at ")
    assert (row["n_gen_min"], row["n_gen_max"]) == ((384, 768) if first else (128, 512))


def test_a_load_throughout_shows_against_the_best_of_another_study():
    loaded = curve(dict.fromkeys(GRID, 4.0))
    assert verdict(loaded)["verdict"] == "smooth", "by itself it has no quiet moment"
    row = verdict(loaded.with_columns(pl.lit(value).alias(name) for name, value in KNOWN.items()))
    assert (row["verdict"], row["busy"]) == ("undetermined", True)
    assert "11 of 11 cells disturbed, the fixed workload took 4.0 times as long as at rest" in row["reason"]


def test_the_hosts_sentinel_counts_as_well():
    runs = [run(n, host_sentinel_before_s=0.02 * (5 if n > 128 else 1)) for n in GRID]
    row = verdict(requests_table(runs))
    assert (row["verdict"], row["busy"]) == ("undetermined", True)
    assert "took 5.0 times as long" in row["reason"]


def test_a_regime_is_found_beside_a_load_elsewhere():
    slow = {512: 8.0, 576: 8.0}
    runs = [run(n, 5.0 if n == 192 else 1.0, slow.get(n, 5.0 if n == 192 else 1.0)) for n in GRID]
    found = find_regimes(requests_table(runs))
    row = found.series.row(0, named=True)
    assert (row["verdict"], row["reason"]) == ("slow regimes", None)
    assert found.regimes.select("first_slow", "last_slow").rows() == [(512, 576)]
    assert row["next"].startswith("Measure 192 again: the machine was busy there.")


def test_a_disturbed_length_that_is_no_slower_than_normal_stays():
    runs = [run(n, 3.0 if n == 384 else 1.0) for n in GRID]
    found = find_regimes(requests_table(runs))
    assert found.series.select("verdict", "reason", "next", "n_budgets").row(0) == ("smooth", None, None, len(GRID))
    assert found.budgets.filter(n_gen=384).select("state", "disturbed").row(0) == ("normal", True)


def test_a_quiet_process_of_a_length_decides():
    again = [run(n, process=2) for n in GRID]
    busy = [run(n, 6.0, 6.0) for n in GRID]
    row = verdict(requests_table([*busy, *again]))
    assert (row["verdict"], row["busy"], row["n_disturbed"]) == ("smooth", False, len(GRID))


@pytest.mark.parametrize("reason", ["on battery power", "low-power mode"])
def test_what_all_cells_share_disturbs_none(reason):
    assert verdict(curve({}, disturbed=reason))["verdict"] == "smooth"
    some = requests_table(run(n, disturbed=reason if n < 600 else None) for n in GRID)
    assert verdict(some)["busy"]
    other = curve({}, disturbed=f"{reason}; other processes used 90% of the cores")
    assert verdict(other)["reason"].endswith(f"({reason}; other processes used 90% of the cores)")


def test_another_device_has_a_best_of_its_own():
    runs = [run(n) for n in GRID] + [run(n, 10.0, series="gpu", device="cuda") for n in GRID]
    assert find_regimes(requests_table(runs)).series["busy"].to_list() == [False, False]
    best = with_best(requests_table(runs)).group_by("device").agg(pl.col("sentinel_best_s").unique().first())
    assert dict(best.rows()) == {"cpu": pytest.approx(REST_S), "cuda": pytest.approx(10 * REST_S)}


def test_a_cells_row_says_how_far_its_sentinel_was_above_the_best():
    cells = summarise_cells(curve({512: 4.0}), [])
    assert cells.filter(n_gen=512)["disturbed"].item() == "the sentinel took 4.0 times its best"
    assert cells["disturbed"].null_count() == len(GRID) - 1


@settings(deadline=None, max_examples=20)
@given(st.floats(0.01, 100), st.lists(st.floats(1, 20), min_size=len(GRID), max_size=len(GRID)))
def test_only_ratios_of_sentinels_count(scale, load):
    requests = curve(dict(zip(GRID, load, strict=True)))
    sentinels = [f"{name}_before_s" for name in LEVELS]
    scaled = find_regimes(requests.with_columns(pl.col(sentinels) * scale))
    plain = find_regimes(requests)
    near = any(abs(level / min(load) / LEVELS["sentinel"] - 1) < 1e-9 for level in load)
    assert near or scaled.series.drop("next").equals(plain.series.drop("next"))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0, 0.24), min_size=len(GRID), max_size=len(GRID)))
def test_a_quiet_machines_scatter_disturbs_nothing(logs):
    runs = [run(n, math.exp(log), sentinel_after_s=REST_S) for n, log in zip(GRID, logs, strict=True)]
    found = with_disturbances(requests_table(runs))
    assert not found["is_disturbed"].any()


def test_refinement_repeats_what_was_set_aside_and_nothing_on_a_busy_machine():
    settings_ = Refinement(rounds=1, processes=2)
    for load, repeated in ((dict.fromkeys((384, 448), 5.0), [384, 448]), (dict.fromkeys(list(GRID)[1:], 5.0), [])):
        requests = curve(load)
        planned = plan_round(requests, find_regimes(requests), settings_, 1)
        assert [(one.n_gen, one.process) for one in planned if one.kind == "repeat"] == [(n, 2) for n in repeated]
        assert all("measured while the machine was busy" in one.why for one in planned if one.kind == "repeat")


def test_a_comparison_beside_a_load_decides_nothing():
    runs = [run(n) for n in GRID] + [run(n, 4.0, 4.0, series="off", kv_cache="off") for n in GRID]
    requests = requests_table(runs)
    found = find_regimes(requests)
    rows = compare_series(requests, found.series, found.budgets)
    assert rows.height == len(GRID)
    assert rows["disturbed"].all()


def test_claims_and_hypotheses_decide_nothing_on_a_busy_machine():
    paper = {"model": "gpt2-medium", "device": "mps", "instrument": "step_sync", **KNOWN}
    requests = curve(dict.fromkeys(GRID, 4.0), **paper)
    found, cells = find_regimes(requests), summarise_cells(requests, [])
    measured = Measured(requests, cells, MEMORY_SAMPLES.schema.to_frame(), found.series, found.budgets, found.regimes)
    ((_, _, evidence),) = measured_evidence(measured)
    claims = check_claims(read_claims(REFERENCE), evidence)
    told = {row["claim_id"]: (row["outcome"], row["why"]) for row in claims.iter_rows(named=True)}
    assert told["C2"] == (
        "can't tell",
        "the machine was busy while gpt2-medium on mps (instrument step_sync) was measured",
    )
    assert told["C1"][0] == "can't tell"
    assert set(claims["outcome"]) <= {"can't tell", "not measured"}
    (reference,) = read_curves(found.series, found.budgets, found.regimes)
    assert (reference.row["verdict"], dict(reference.points), reference.regimes) == ("undetermined", {}, ())


def test_an_arm_beside_a_load_tells_nothing():
    arm = [run(n, 4.0, 4.0, series="arm", between_requests="empty_cache") for n in GRID]
    requests = requests_table([*(run(n, slow=8.0 if n == 512 else 1.0) for n in GRID), *arm])
    found = find_regimes(requests)
    samples = MEMORY_SAMPLES.schema.to_frame()
    judged = judge_study(requests, samples, found.series, found.budgets, found.regimes)
    told = judged.hypotheses.filter(observable="emptied_kept")
    assert set(told["outcome"]) == {"not tested"}
    assert judged.mitigations.is_empty()
