"""Cells measured at one time: counted against brute force, and a disturbance that is planted is found."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedbump.analyse.neighbours import compare_neighbours, count_neighbours
from speedbump.tables import CELLS

holds = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 50), st.integers(1, 30)), min_size=1, max_size=20
)


def record(boot, since_s, until_s, machine="m"):
    return {"machine": machine, "held": {"boot": boot, "since_s": since_s, "until_s": until_s}}


@given(holds)
def test_neighbours_are_counted_as_one_would_second_by_second(drawn):
    records = [record(boot, 1e9 + since, 1e9 + since + length) for boot, since, length in drawn]
    for (boot, since, length), mean in zip(drawn, count_neighbours(records), strict=True):
        others = [
            sum(b == boot and s <= second < s + n for b, s, n in drawn) - 1 for second in range(since, since + length)
        ]
        assert mean == pytest.approx(np.mean(others), abs=1e-6)


def test_a_run_that_does_not_say_when_it_held_a_device_has_an_unknown_number_of_neighbours():
    assert count_neighbours([{"machine": "m"}, record(None, 0.0, 10.0), record(None, 5.0, 15.0, machine="n")]) == [
        None,
        0.0,
        0.0,
    ]


def cells(rows):
    """A ``cells`` table of rows (slot, neighbours, sentinel_s, n_gen, e2e_median_s); both sentinels agree."""
    columns = ("slot", "neighbours", "sentinel_s", "n_gen", "e2e_median_s")
    shared = {**dict.fromkeys(CELLS.schema), "series": "s", "outcome": "ok"}
    table = [{**shared, "cell": f"c{i}", **dict(zip(columns, row, strict=True))} for i, row in enumerate(rows)]
    return pl.DataFrame(table, schema=CELLS.schema).with_columns(host_sentinel_s=pl.col("sentinel_s") * 2)


def simulate(rng, effect, noise=0.01, budgets=12):
    """Two devices, the second 30 % slower; every budget in two processes, one of them beside a neighbour."""
    rows = []
    for n_gen in range(1, budgets + 1):
        for slot, own in (("cuda-a", 1.0), ("cuda-b", 1.3)):
            for beside in (0.0, 0.9):
                factor = own * (effect if beside else 1.0)
                sentinel, latency = factor * np.exp(rng.normal(0, noise, 2))
                rows.append((slot, beside, 0.03 * sentinel, n_gen, 0.5 * n_gen * latency))
    return cells(rows)


def test_a_planted_slow_down_is_found_and_two_unequal_devices_are_none():
    found = compare_neighbours(simulate(np.random.default_rng(1), effect=1.1))
    assert (found.devices, found.most, found.alone, found.beside) == (2, 2, 24, 24)
    for effect, groups in ((found.on_sentinels, 2), (found.on_host_sentinels, 2), (found.on_latencies, 24)):
        assert effect.groups == groups
        assert effect.ratio.low < 1.1 < effect.ratio.high
        assert 1.08 < effect.ratio.low < effect.ratio.high < 1.12


def test_without_a_disturbance_the_interval_misses_one_in_one_of_twenty():
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(400):
        ratio = compare_neighbours(simulate(rng, effect=1.0)).on_latencies.ratio
        missed += not ratio.low <= 1 <= ratio.high
    assert 5 <= missed <= 40  # 20 expected; binomial, four standard deviations


def test_what_was_never_measured_alone_is_not_compared():
    beside = [("cuda-a", 1.0, 0.03, n, 0.1) for n in (8, 16, 24)]
    alone = [("cuda-b", 0.0, 0.04, n, 0.2) for n in (8, 16, 24)]
    found = compare_neighbours(cells(beside + alone))
    assert (found.alone, found.beside) == (3, 3)
    assert found.on_sentinels is None
    assert found.on_latencies is None


def test_a_machine_where_nothing_had_a_neighbour_has_nothing_to_say():
    assert compare_neighbours(cells([("cuda-a", 0.0, 0.03, 8, 0.1), (None, None, 0.03, 8, 0.1)])) is None
