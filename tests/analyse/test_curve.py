"""Which requests of a table count, and as what."""

import numpy as np
import pytest

from bench.requests import Run, requests_table
from speedbump.analyse.curve import Curve, read_curves


def curve_of(*runs: Run) -> Curve:
    ((_, curve),) = read_curves(requests_table(runs))
    return curve


def test_processes_are_told_apart_by_cell_and_process():
    curve = curve_of(Run("s", 1, (1.0, 2.0)), Run("s", 1, (4.0,), process=2), Run("s", 2, (8.0,)))
    assert [[np.exp(v).tolist() for v in processes] for processes in curve.repeats] == [
        [pytest.approx([1, 2]), pytest.approx([4])],
        [pytest.approx([8])],
    ]
    assert curve.n_processes.tolist() == [2, 1]


def test_a_stopped_request_beside_finished_ones_counts_only_when_it_lies_beyond_them():
    stopped = {"status": "stopped", "lower_bound": True}
    low = curve_of(Run("s", 1, (1.0, 1.1)), Run("s", 1, (1.3,), **stopped))
    high = curve_of(Run("s", 1, (1.0, 1.1)), Run("s", 1, (5.0,), **stopped))
    assert (len(low.pooled(0)), len(high.pooled(0))) == (2, 3)
    assert not low.censored.any()


def test_the_longest_stop_is_the_bound_where_nothing_finished():
    stopped = {"status": "stopped", "lower_bound": True}
    curve = curve_of(Run("s", 1, (3.0,), phase="warmup", **stopped), Run("s", 1, (5.0,), process=2, **stopped))
    assert np.exp(curve.bound).tolist() == pytest.approx([5])
    assert curve.n_stopped.tolist() == [2]
    assert curve.n_processes_beyond(np.log([4.0])).tolist() == [1]


@pytest.mark.parametrize("sentinel", ["sentinel_before_s", "host_sentinel_before_s"])
def test_unrest_is_the_spread_of_a_sentinel_between_processes(sentinel):
    def runs(times: list[float]) -> list[Run]:
        return [Run("s", k + 1, (1.0,), changes=((sentinel, t),)) for k, t in enumerate(times)]

    assert curve_of(*runs([0.05, 0.051, 0.05, 0.049, 0.05])).unrest == 0
    assert curve_of(*runs([0.05, 0.1, 0.2, 0.05, 0.3, 0.07])).unrest > 0.3
    assert curve_of(*runs([0.05, 0.5])).unrest == 0  # too few to tell
