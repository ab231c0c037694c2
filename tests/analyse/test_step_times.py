"""Slow steps inside requests, and whether they follow the position or the state."""

import time

import numpy as np
import polars as pl
import pytest

from bench.requests import Run, requests_table
from speedbump.analyse.step_times import find_slow_steps


def steps(n: int, slow: slice | None = None, factor: float = 10.0, seed: int = 0) -> list[float]:
    """A prefill and n - 1 steps of 8 ms and 4 us a position, with 5 % noise."""
    rng = np.random.default_rng(seed)
    times = (0.008 + 4e-6 * np.arange(n)) * np.exp(rng.normal(0, 0.05, n))
    times[0] = 0.05
    if slow is not None:
        times[slow] *= factor
    return times.tolist()


def table(requests: list[tuple[int, int, list[float]]]) -> pl.DataFrame:
    """(budget, index in the process, step times) of every request, all in one series."""
    runs = [
        Run("s", n, (sum(times),), changes=(("request", k), ("step_s", times), ("instrument", "per_step")))
        for n, k, times in requests
    ]
    return requests_table(runs)


def test_no_slow_steps():
    found = find_slow_steps(table([(n, k, steps(n, seed=n + k)) for n in (256, 512) for k in range(4)]))
    assert found.series["follows"].to_list() == ["nothing"]
    assert found.requests["n_slow_steps"].sum() == 0
    assert found.requests["slowdown"].null_count() == 8


def test_from_which_step_in_which_request_for_how_long():
    requests = [(512, k, steps(512, slice(300, 401) if k >= 2 else None, seed=k)) for k in range(6)]
    found = find_slow_steps(table(requests))
    assert found.requests["n_spells"].to_list() == [0, 0, 1, 1, 1, 1]
    slow = found.requests.filter(pl.col("n_spells") > 0)
    assert slow["first_slow_step"].to_list() == [300] * 4
    assert slow["last_slow_step"].to_list() == [400] * 4
    assert slow["slowdown"].to_numpy() == pytest.approx(10, rel=0.05)
    assert slow["excess_s"].to_numpy() == pytest.approx(9 * 101 * 0.0094, rel=0.05)
    assert found.series["first_slow_request"].item() == 2


def test_slowness_of_the_position_alone():
    requests = [(n, k, steps(n, slice(300, 400), seed=n + k)) for n in (256, 512, 768) for k in range(3)]
    series = find_slow_steps(table(requests)).series.row(0, named=True)
    assert series["follows"] == "position"
    assert series["first_slow_step"] == 300


def test_slowness_of_the_state():
    requests = [(512, k, steps(512, slice(100, None) if k >= 3 else None, seed=k)) for k in range(6)]
    requests += [(640, k, steps(640, seed=10 + k)) for k in range(6)]
    series = find_slow_steps(table(requests)).series.row(0, named=True)
    assert series["follows"] == "state"
    assert series["agreement"] < 0.3


def test_one_slow_step_is_no_state():
    requests = [(512, k, steps(512, slice(77, 78), factor=50, seed=k)) for k in range(3)]
    assert find_slow_steps(table(requests)).series["follows"].item() == "nothing"


def test_one_request_cannot_tell():
    found = find_slow_steps(table([(512, 0, steps(512, slice(200, 300)))]))
    assert found.series["follows"].item() == "can't tell"


def test_tables_without_step_times_give_empty_frames(make_requests):
    found = find_slow_steps(make_requests())
    assert (found.requests.height, found.series.height) == (0, 0)


def test_ten_thousand_requests_cost_ten_times_what_a_thousand_do():
    def cost(requests: int):
        times = 0.008 * np.exp(np.random.default_rng(0).normal(0, 0.05, (requests, 768)))
        times[requests // 2 :, 300:] *= 10
        frame = (
            table([(768, 0, [0.1] * 20)])
            .drop("step_s", "request")
            .join(pl.DataFrame({"request": range(requests), "step_s": times.tolist()}), how="cross")
        )
        start = time.process_time()
        found = find_slow_steps(frame)
        return time.process_time() - start, found

    (few_s, _), (many_s, found) = cost(1_000), cost(10_000)
    assert many_s / few_s < 25
    assert found.series["n_slow_requests"].item() == 5_000
