"""What would have been noticed, by injection."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.noticed import PROMISED, noticed_scenarios, score_noticed
from speedbump.analyse.csv_table import findings_of_csv, read_csv_curves
from speedbump.analyse.curve import from_published, from_repeats
from speedbump.analyse.examine import examine
from speedbump.analyse.noticed import find_noticeable, with_noticeable
from speedbump.analyse.segments import dissect
from speedbump.analyse.verdict import judge

CASES = Path(__file__).parent / "data" / "cases"


def case(name: str):
    (curve,) = read_csv_curves(CASES / f"{name}.csv").values()
    return curve


def series_of(name: str) -> dict:
    return findings_of_csv(CASES / f"{name}.csv").series.row(0, named=True)


def slowed(curve, i, factor):
    repeats = list(curve.repeats)
    repeats[i] = tuple(values + np.log(factor) for values in repeats[i])
    return replace(curve, repeats=tuple(repeats))


def test_a_quiet_first_look_rules_out_much():
    row = series_of("quiet-first-look")
    assert row["verdict"] == "smooth"
    assert 1.4 <= row["noticed"] <= 1.7
    assert 1.5 <= row["noticed_ends"] <= 2.0
    assert row["called"] >= row["noticed"]


def test_a_slowdown_of_the_stated_size_changes_the_verdict():
    curve = case("quiet-first-look")
    noticed = find_noticeable(dissect(curve)).noticed
    for i, size in enumerate(noticed):
        assert judge(dissect(slowed(curve, i, 1.1 * size))).verdict != "smooth"
        assert judge(dissect(slowed(curve, i, size / 1.4))).verdict == "smooth"


def test_single_requests_are_noticed_though_not_called():
    row = series_of("single-requests")
    assert row["verdict"] == "smooth"
    assert 1.4 <= row["noticed"] <= 1.9
    assert row["called"] > 5


def test_nothing_larger_than_what_stood_out_is_said():
    findings = findings_of_csv(CASES / "one-slow-single.csv")
    row = findings.series.row(0, named=True)
    assert (row["verdict"], "16384" in row["reason"]) == ("undetermined", True)
    smallest = findings.regimes["slowdown"].min()
    for name in ("noticed", "noticed_ends", "called", "called_ends"):
        assert row[name] is None or row[name] < smallest


def test_published_means_are_seen_as_well():
    budget = np.arange(128.0, 769, 64)
    mean = 0.1 + 0.01 * budget
    anatomy = dissect(from_published(budget, mean, 0.02 * mean, np.full(len(budget), 5.0)))
    noticed = find_noticeable(anatomy).noticed
    assert ((noticed > 1.25) & (noticed < 1.8)).all()
    slow = np.where(np.arange(len(budget)) == 5, 1.1 * noticed[5] * mean, mean)
    assert judge(dissect(from_published(budget, slow, 0.02 * slow, np.full(len(budget), 5.0)))).verdict != "smooth"


def test_noise_and_few_repeats_hide_more(make_curve):
    quiet, single = (find_noticeable(dissect(make_curve(repeats=n))) for n in (5, 1))
    assert np.median(quiet.noticed) < np.median(single.noticed)
    assert np.median(quiet.called) < np.median(single.called)


def test_beside_a_regime_the_other_lengths_are_judged(make_curve):
    anatomy = with_noticeable(examine(make_curve({512: 4.0})))
    noticed, slow = anatomy.noticeable.noticed, anatomy.curve.budget == 512
    assert np.isnan(noticed[slow]).all()
    assert (noticed[~slow] < 2.0).all()


def test_nothing_is_known_where_the_whole_verdict_is_in_doubt():
    few = from_repeats(np.array([128.0, 256, 384]), [np.full(3, 1.0), np.full(3, 2.0), np.full(3, 3.0)])
    assert np.isnan(find_noticeable(dissect(few)).noticed).all()
    pattern = with_noticeable(examine(case("alt_2")))
    assert np.isnan(pattern.noticeable.noticed).all()


def test_sixty_lengths_take_less_than_a_second():
    rng = np.random.default_rng(0)
    budget = np.arange(16.0, 16 * 61, 16)
    curve = from_repeats(budget, [(0.1 + 0.01 * b) * np.exp(rng.normal(0, 0.03, 5)) for b in budget])
    anatomy = dissect(curve)
    start = time.process_time()
    found = find_noticeable(anatomy)
    assert time.process_time() - start < 1.0
    assert not np.isnan(found.noticed).any()


@pytest.mark.simulation
@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("name", ["mix/n6/s0.05", "mix/n12/r2", "quiet/n6/r1", "processes/n40"])
def test_the_stated_size_is_noticed_as_often_as_promised(name, end):
    score = score_noticed(f"test/{name}", noticed_scenarios()[name], 60, end)
    assert len(score.stated) == score.smooth
    # three standard errors of 60 draws
    assert score.share >= PROMISED - 0.1
    assert score.share_below < PROMISED
