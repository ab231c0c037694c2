"""Which budgets a round of refinement asks for, and why."""

import json

import numpy as np
import polars as pl
import pytest

from bench.requests import Run, requests_table
from plan_refinement import remaining
from speedbump.analyse.refinement import plan_round
from speedbump.analyse.regimes import find_regimes
from speedbump.grid.study import Refinement

SLOW = dict.fromkeys(range(512, 609, 32), 10.0)


def plan(requests: pl.DataFrame, **settings):
    return plan_round(requests, find_regimes(requests), Refinement(**settings), 1)


def test_a_smooth_series_asks_for_nothing(make_requests):
    assert plan(make_requests()) == []


def test_the_middles_of_both_brackets_are_probed(make_requests):
    cells = plan(make_requests(SLOW), width=16, rounds=9)
    assert [(c.kind, c.n_gen, c.process, c.warmups, c.repeats) for c in cells] == [
        ("probe", 496, 1, 1, 2),
        ("probe", 624, 1, 1, 2),
    ]
    assert cells[0].why == (
        "First process at 496 tokens: middle of the bracket 480 to 512, where the slow regime begins."
    )


def test_a_probe_carries_limits_that_need_no_statistics(make_requests):
    probe = plan(make_requests(SLOW), width=16)[0].probe
    assert probe["normal_below_s"] == pytest.approx(1.2 * 5.06, rel=0.03)
    assert probe["slow_above_s"] == pytest.approx(2.5 * 5.06, rel=0.03)
    assert (probe["min_repeats"], probe["max_repeats"]) == (1, 5)
    assert "stop_at_s" not in probe
    assert "stop_at_s" in plan(make_requests(SLOW), width=16, cut=True)[0].probe


def test_near_the_smallest_slowdown_a_probe_takes_two_requests(make_requests):
    assert plan(make_requests(dict.fromkeys(SLOW, 2.0)), width=16)[0].probe["min_repeats"] == 2


def test_edges_that_are_narrow_enough_are_confirmed_in_another_process(make_requests):
    cells = plan(make_requests(SLOW), width=32)
    assert [(c.kind, c.n_gen, c.process, c.warmups, c.repeats) for c in cells] == [
        *(("confirm", n, 2, 3, 5) for n in (480, 512, 608, 640)),
        ("confirm", 576, 2, 1, 2),
    ]
    assert all(c.probe is None for c in cells)


def test_what_was_tried_is_not_planned_again_even_if_it_failed(make_requests):
    failed = Run("s", 496, (1.0,), status="out_of_memory")
    cells = plan(make_requests(SLOW, extra=(failed,)), width=16)
    assert cells[0].n_gen == 495


def test_the_last_round_confirms_a_budget_inside(make_requests):
    cells = plan(make_requests(SLOW), width=16, rounds=1)
    assert [(c.kind, c.n_gen, c.process) for c in cells[2:]] == [("confirm", 576, 2)]


def test_a_confirmed_series_asks_for_nothing(make_requests):
    again = [(480, 4.9), (512, 52.0), (544, 55.0), (576, 58.0), (608, 61.0), (640, 6.5)]
    extra = tuple(Run("s", n, (t, t * 1.02, t * 0.98), process=2) for n, t in again)
    assert plan(make_requests(SLOW, extra=extra), width=32) == []


def test_an_unstable_budget_is_repeated_until_its_processes_are_used_up(make_requests):
    requests = make_requests().filter(pl.col("n_gen") != 512)
    both = requests_table([Run("s", 512, (5.2, 5.3, 50.0, 52.0, 5.2))])
    (cell,) = plan(pl.concat([requests, both]))
    assert (cell.kind, cell.n_gen, cell.process) == ("repeat", 512, 2)
    assert plan(pl.concat([requests, both]), processes=1) == []


def test_limits_on_cells_hours_and_rounds(make_requests):
    requests = make_requests(SLOW)
    assert len(plan(requests, width=16, max_cells=1)) == 1
    first, second = plan(requests, width=16, rounds=9)
    hours = (first.predicted_s + second.predicted_s) / 3600
    assert plan(requests, width=16, rounds=9, max_hours=0.9 * hours) == [first]
    assert plan_round(requests, find_regimes(requests), Refinement(rounds=1), 2) == []


def test_persistent_processes_are_left_alone(make_requests):
    requests = make_requests(SLOW).with_columns(lifetime=pl.lit("persistent"))
    assert plan(requests, width=16) == []


def test_wide_gaps_are_halved_where_the_study_asks(make_requests):
    cells = plan(make_requests(), gap=16)
    assert {c.kind for c in cells} == {"gap"}
    assert len(cells) == 20


def test_too_few_normal_budgets_ask_for_more():
    runs = [Run("s", n, (t, t, t)) for n, t in ((128, 10.0), (256, 11.0), (384, 3.9), (512, 5.2))]
    cells = plan(requests_table(runs))
    assert cells
    assert all(128 < c.n_gen < 512 or c.process > 1 for c in cells)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"widht": 1}, "widht"),
        ({"width": 0}, "width"),
        ({"width": "16"}, "width"),
        ({"cut": 1}, "cut"),
        ({"width": None}, "width"),
    ],
)
def test_settings_nobody_can_mean_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        Refinement.model_validate(settings)


def test_what_earlier_plans_spent_is_taken_off_the_limits(tmp_path, make_requests):
    first = plan(make_requests(SLOW), width=1, rounds=9, cut=True)
    assert [cell.n_gen for cell in first] == [496, 624]
    rows = [cell.as_row() for cell in first]
    assert rows[0].keys() >= {"series", "n_gen", "why", "kind", "process", "warmups", "repeats", "probe"}
    written = tmp_path / "1.json"
    written.write_text(json.dumps({"round": 1, "cells": rows}))
    left = remaining(Refinement(max_cells=3, max_hours=1.0), [written])
    assert left.max_cells == 1
    assert left.max_hours == pytest.approx(1 - sum(cell.predicted_s for cell in first) / 3600)
    assert remaining(Refinement(max_cells=1), [written]).max_cells == 0


def test_a_doubtful_end_asks_for_a_budget_beside_it():
    rng = np.random.default_rng(0)
    latency = {n: 0.01 * n for n in range(128, 769, 128)} | {128: 0.01 * 128 * 1.8}
    runs = [Run("s", n, tuple((t * np.exp(rng.normal(0, 0.03, 5))).tolist())) for n, t in latency.items()]
    requests = requests_table(runs)
    assert "bend" in find_regimes(requests).series["reason"].item()
    assert [(c.kind, c.n_gen) for c in plan(requests)] == [("gap", 192)]


def test_a_step_has_one_edge_to_refine_and_to_confirm(make_requests):
    requests = make_requests(dict.fromkeys(range(384, 769, 32), 3.0))
    (cell,) = plan(requests, width=16, rounds=9)
    assert (cell.kind, cell.n_gen, cell.why) == (
        "probe",
        368,
        "First process at 368 tokens: middle of the bracket 352 to 384, where the step begins.",
    )
    assert [(c.kind, c.n_gen, c.process) for c in plan(requests, width=32)] == [
        ("confirm", 352, 2),
        ("confirm", 384, 2),
        ("confirm", 576, 2),
    ]


def test_a_step_seen_again_in_another_process_is_confirmed(make_requests):
    again = [(352, 3.62), (384, 3 * 3.94), (576, 3 * 5.86)]
    extra = tuple(Run("s", n, (t, t * 1.02, t * 0.98), process=2) for n, t in again)
    requests = make_requests(dict.fromkeys(range(384, 769, 32), 3.0), extra=extra)
    assert find_regimes(requests).regimes["confirmed"].to_list() == [True]
    assert plan(requests, width=32) == []
