"""From events to rows."""

import pytest

from speedbump.measure.plan import is_decided, plan_requests
from speedbump.measure.rows import Ending, Record, request_table

CELL = {"model": "tiny", "device": "cpu", "n_gen": 5, "warmups": 1, "repeats": 2, "seed": 1}
PROBE = {"min_repeats": 2, "max_repeats": 4, "normal_below_s": 1.0, "slow_above_s": 2.0}


def answer(request, start_s, **given):
    return {
        "event": "request",
        "request": request,
        "started_at": "2026-01-01T00:00:00+00:00",
        "start_s": start_s,
        "end_s": start_s + 2.0,
        "ttft_s": 0.4,
        "e2e_s": 2.0,
        "n_tokens": 5,
        "finite": True,
        **given,
    }


def rows(*events, ending=None, cell=CELL):
    record = Record()
    for event in events:
        record.take(event)
    record.ending = record.ending or ending
    return request_table(cell, "machine", "stack", plan_requests(cell), record, [])


def started(request):
    return {"event": "request_started", "request": request, "started_at": "2026-01-01T00:00:00+00:00"}


def test_every_row_has_the_cells_sentinels():
    before, after = (
        {"event": "sentinels", "when": when, "device_s": 0.03 + late, "host_s": 0.02 + late}
        for when, late in (("before", 0.0), ("after", 0.01))
    )
    columns = ["sentinel_before_s", "host_sentinel_before_s", "sentinel_after_s", "host_sentinel_after_s"]
    whole = rows(before, answer(0, 10.0), answer(1, 12.5), answer(2, 15.0), after).select(columns)
    assert whole.rows() == [pytest.approx((0.03, 0.02, 0.04, 0.03))] * 3
    assert rows(before, answer(0, 10.0)).select(columns).row(0) == (0.03, 0.02, None, None)


def test_times_follow_their_definitions():
    table = rows(answer(0, 10.0), answer(1, 12.5), answer(2, 15.0))
    assert table["decode_s"].to_list() == pytest.approx([1.6] * 3)
    assert table["tpot_s"].to_list() == pytest.approx([0.4] * 3)
    assert table["gap_s"].to_list() == [None, 0.5, 0.5]


def test_one_token_has_no_time_per_further_token():
    assert rows(answer(0, 0.0, n_tokens=1), cell={**CELL, "n_gen": 1, "warmups": 0, "repeats": 1})["tpot_s"][0] is None


def test_a_request_in_flight_keeps_its_time_as_a_lower_bound():
    table = rows(answer(0, 0.0), started(1), ending=Ending("stopped", "too slow", 7.0))
    assert table["status"].to_list() == ["ok", "stopped", "not_run"]
    assert table["lower_bound"].to_list() == [False, True, False]
    assert table["e2e_s"].to_list() == [2.0, 7.0, None]
    assert table["message"][2] == "not started: an earlier request was stopped"


def test_a_cell_that_ends_before_its_first_request_has_rows_without_bounds():
    table = rows(ending=Ending("out_of_memory", "no room", None))
    assert table["status"].to_list() == ["out_of_memory", "not_run", "not_run"]
    assert not table["lower_bound"].any()


def test_a_wrong_number_of_tokens_is_invalid():
    table = rows(answer(0, 0.0, n_tokens=4), answer(1, 2.0, finite=False), answer(2, 4.0))
    assert table["status"].to_list() == ["invalid", "invalid", "ok"]
    assert table["message"][0] == "4 tokens instead of 5"


def test_a_probe_is_decided_when_all_its_requests_agree():
    assert not is_decided(PROBE, [0.5])
    assert is_decided(PROBE, [0.5, 0.6])
    assert is_decided(PROBE, [2.5, 3.0])
    assert not is_decided(PROBE, [0.5, 3.0])
    assert not is_decided(PROBE, [1.5, 1.5])


def test_a_sequence_is_warmed_up_once_at_its_first_budget():
    plan = plan_requests({"sequence": [8, 4], "warmups": 1, "repeats": 2})
    assert [(one.phase, one.n_gen) for one in plan] == [
        ("warmup", 8),
        ("measured", 8),
        ("measured", 8),
        ("measured", 4),
        ("measured", 4),
    ]
    assert [one.request for one in plan] == [0, 1, 2, 3, 4]
