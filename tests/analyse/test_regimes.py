"""From requests to findings: what a reader of the three tables is told."""

import json
import math

import polars as pl
import pytest

from bench.requests import Run, requests_table
from speedbump.analyse.changes.compare import compare_places
from speedbump.analyse.regimes import find_regimes
from speedbump.tables import BUDGETS, REGIMES, SERIES, check_table

SLOW = dict.fromkeys(range(512, 609, 32), 10.0)


def test_a_smooth_series_has_no_regime(make_requests):
    found = find_regimes(make_requests())
    assert found.series["verdict"].to_list() == ["smooth"]
    assert found.regimes.is_empty()
    assert set(found.budgets["state"]) == {"normal"}


def test_a_slow_regime_is_found_with_its_edges_and_slowdown(make_requests):
    found = find_regimes(make_requests(SLOW))
    series, regime = found.series.row(0, named=True), found.regimes.row(0, named=True)
    assert series["verdict"] == "slow regimes"
    assert (regime["onset_low"], regime["onset_high"]) == (480, 512)
    assert (regime["recovery_low"], regime["recovery_high"]) == (608, 640)
    assert regime["slowdown_low"] < 10 < regime["slowdown_high"]
    assert regime["slowdown"] == pytest.approx(10, rel=0.1)
    assert regime["slowdown_neighbour"] == pytest.approx(10, rel=0.1)
    assert not regime["confirmed"]
    assert "in another process" in series["next"]


def test_the_tables_have_their_columns(make_requests):
    found = find_regimes(make_requests(SLOW))
    for frame, table in ((found.series, SERIES), (found.regimes, REGIMES), (found.budgets, BUDGETS)):
        assert check_table(frame, table, "test").columns == list(table.schema)


def test_axes_and_place_are_kept(make_requests):
    requests = make_requests().with_columns(model=pl.lit("gpt2-medium"), machine=pl.lit("m"))
    row = find_regimes(requests).series.row(0, named=True)
    assert (row["model"], row["machine"], row["kv_cache"]) == ("gpt2-medium", "m", "dynamic")


def test_a_regime_open_on_the_right_is_above_the_trend_and_has_no_recovery(make_requests):
    found = find_regimes(make_requests(dict.fromkeys(range(640, 769, 32), 8.0)))
    regime = found.regimes.row(0, named=True)
    assert found.series["verdict"].item() == "excess"
    assert regime["open_right"]
    assert regime["recovery_high"] is None
    assert "768" in found.series["next"].item()


def test_a_jump_that_no_curve_can_grow_by_needs_no_third_normal_budget():
    """Two normal budgets, then five times as long; the last two of the twelve look slow as well, for the noise."""
    lengths, times = range(480, 657, 16), [1, 1, *[5.0] * 8, 1.6, 2.0]
    runs = [
        Run("s", n, tuple(0.01 * n * by * noise for noise in (0.99, 1.0, 1.01, 1.0, 0.99)))
        for n, by in zip(lengths, times, strict=True)
    ]
    found = find_regimes(requests_table(runs))
    assert found.regimes.filter("accepted")["first_slow"].to_list() == [512]
    growing = [
        Run("s", n, tuple(0.01 * n * by * noise for noise in (0.99, 1.0, 1.01, 1.0, 0.99)))
        for n, by in ((64, 1), (128, 1), (192, 3.0), (256, 3.0))
    ]
    assert find_regimes(requests_table(growing)).series["verdict"].item() == "undetermined"


def test_warmups_and_failures_are_no_latencies(make_requests):
    extra = (
        Run("s", 512, (90.0, 90.0), phase="warmup"),
        Run("s", 544, (90.0, 90.0), status="invalid"),
    )
    assert find_regimes(make_requests(extra=extra)).series["verdict"].item() == "smooth"


def test_a_stopped_request_makes_a_regime_with_a_lower_bound(make_requests):
    requests = make_requests().filter(pl.col("n_gen") != 512)
    stopped = requests_table([Run("s", 512, (80.0,), status="stopped", lower_bound=True)])
    found = find_regimes(pl.concat([requests, stopped]))
    regime = found.regimes.row(0, named=True)
    assert found.series["verdict"].item() == "slow regimes"
    assert regime["lower_bound"]
    assert regime["slowdown"] == pytest.approx(80 / 5.22, rel=0.05)
    assert regime["slowdown_high"] is None
    budget = found.budgets.filter(pl.col("n_gen") == 512).row(0, named=True)
    assert budget["lower_bound"]
    assert budget["low_s"] is None


def test_a_stopped_warmup_counts_where_nothing_finished(make_requests):
    requests = make_requests().filter(pl.col("n_gen") != 512)
    stopped = requests_table([Run("s", 512, (80.0,), phase="warmup", status="stopped", lower_bound=True)])
    assert find_regimes(pl.concat([requests, stopped])).regimes["first_slow"].to_list() == [512]


def test_a_low_bound_says_nothing(make_requests):
    requests = make_requests().filter(pl.col("n_gen") != 512)
    stopped = requests_table([Run("s", 512, (6.0,), status="stopped", lower_bound=True)])
    found = find_regimes(pl.concat([requests, stopped]))
    assert found.series["verdict"].item() == "smooth"
    assert found.regimes.is_empty()
    assert found.budgets.filter(n_gen=512)["state"].to_list() == ["unclear"]


def test_a_series_in_which_nothing_finished_is_not_measured():
    runs = [
        Run("s", 128, (1.0,), status="out_of_memory"),
        Run("s", 256, (1.0,), status="out_of_memory"),
        Run("s", 384, (9.0,), status="stopped", lower_bound=True),
    ]
    row = find_regimes(requests_table(runs)).series.row(0, named=True)
    assert row["verdict"] == "not measured"
    assert "2 requests the device or the system had no memory left" in row["reason"]
    assert "1 request stopped" in row["reason"]


def test_one_budget_is_undetermined():
    row = find_regimes(requests_table([Run("s", 128, (1.0, 1.0, 1.0))])).series.row(0, named=True)
    assert row["verdict"] == "undetermined"
    assert "one budget" in row["reason"]


def test_levels_are_told_apart(make_requests):
    slow = {512: 3.0, 544: 3.0, 576: 12.0, 608: 12.0}
    levels = json.loads(find_regimes(make_requests(slow)).regimes["levels"].item())
    assert [(level["first"], level["last"]) for level in levels] == [(512, 544), (576, 608)]


def test_a_regime_seen_again_in_another_process_is_confirmed(make_requests):
    again = [(480, 4.9), (512, 52.0), (544, 55.0), (576, 58.0), (608, 61.0), (640, 6.5)]
    extra = tuple(Run("s", n, (t, t * 1.02, t * 0.98), process=2) for n, t in again)
    found = find_regimes(make_requests(SLOW, extra=extra))
    assert found.regimes["confirmed"].item()
    assert found.series["n_processes"].item() == 2
    assert found.series["next"].item() is None


def test_processes_that_disagree_leave_it_undetermined_and_a_third_settles_it(make_requests):
    second = Run("s", 512, (5.2, 5.3, 5.2, 5.1, 5.2), process=2)
    found = find_regimes(make_requests({512: 3.0}, extra=(second,)))
    assert found.series["verdict"].item() == "undetermined"
    assert "1 of 2 processes" in found.series["reason"].item()
    third = Run("s", 512, (5.2, 5.1, 5.2, 5.3, 5.2), process=3)
    assert find_regimes(make_requests({512: 3.0}, extra=(second, third))).series["verdict"].item() == "smooth"


def test_disturbed_processes_give_way_to_undisturbed_ones(make_requests):
    disturbed = Run("s", 512, (20.0,) * 5, process=2, changes=(("disturbed", "sentinel drifted"),))
    assert find_regimes(make_requests(extra=(disturbed,))).series["verdict"].item() == "smooth"


def test_repeats_in_both_states_are_told(make_requests):
    requests = make_requests().filter(pl.col("n_gen") != 512)
    both = requests_table([Run("s", 512, (5.2, 5.3, 50.0, 52.0, 5.2))])
    found = find_regimes(pl.concat([requests, both]))
    assert found.series["verdict"].item() == "undetermined"
    assert "2 of 5 requests slow" in found.series["reason"].item()
    assert found.budgets.filter(pl.col("unstable"))["n_gen"].to_list() == [512]


def sentinels(requests: pl.DataFrame, spread: float) -> pl.DataFrame:
    """The same requests; the fixed workload before each process took 50 ms, more or less by ``spread``."""
    times = {n: 0.05 * math.exp(spread * (-1) ** k) for k, n in enumerate(sorted(requests["n_gen"].unique()))}
    return requests.with_columns(sentinel_before_s=pl.col("n_gen").replace_strict(times, return_dtype=pl.Float64))


def test_a_busy_machine_raises_no_alarm_and_is_told(make_requests):
    slow = make_requests(dict.fromkeys((512, 544), 2.0))
    assert find_regimes(sentinels(slow, 0.02)).series["verdict"].item() == "slow regimes"
    found = find_regimes(sentinels(slow, 0.6)).series.row(0, named=True)
    assert found["verdict"] == "undetermined"
    assert "the machine was busy" in found["reason"]
    assert "nothing else to do" in found["next"]


def test_nothing_is_called_on_a_busy_machine_however_slow(make_requests):
    found = find_regimes(sentinels(make_requests(dict.fromkeys(range(512, 609, 32), 30.0)), 0.6))
    assert found.series["verdict"].item() == "undetermined"
    assert found.series["reason"].item().startswith("the machine was busy while this was measured: ")
    assert found.regimes.is_empty()


def test_three_processes_give_an_interval_between_processes(make_requests):
    offsets = {2: 1.3, 3: 0.8}
    latencies = make_requests(SLOW).select("n_gen", "e2e_s").group_by("n_gen", maintain_order=True).all()
    again = tuple(
        Run("s", n, tuple(t * factor for t in times), process=process)
        for n, times in latencies.rows()
        for process, factor in offsets.items()
    )
    within = find_regimes(make_requests(SLOW)).regimes.row(0, named=True)
    between = find_regimes(make_requests(SLOW, extra=again))
    assert between.series["n_processes"].item() == 3
    row = between.regimes.row(0, named=True)
    assert row["slowdown_low"] < within["slowdown"] < row["slowdown_high"]
    budget = between.budgets.filter(n_gen=512).row(0, named=True)
    assert budget["high_s"] / budget["low_s"] > 1.3


def test_profiled_requests_are_in_no_curve(make_requests):
    plain = make_requests()
    profiled = plain.with_columns(instrument=pl.lit("profile"), series=pl.lit("profiled"))
    both = pl.concat([plain, profiled])
    assert find_regimes(both).series["series"].to_list() == ["s"]
    elsewhere = both.with_columns(stack=pl.lit("other"), series=pl.col("series") + ".other")
    assert compare_places(pl.concat([both, elsewhere])).series.height == 1
