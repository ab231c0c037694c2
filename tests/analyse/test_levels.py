"""Levels of a regime."""

import numpy as np
import pytest

from speedbump.analyse.levels import split_levels


def levels(*slowdowns: float) -> list[tuple[int, int, float]]:
    found = split_levels(np.log(slowdowns), np.full(len(slowdowns), 0.12**2))
    return [(level.first, level.last, round(level.slowdown, 1)) for level in found]


def test_one_level():
    assert levels(10, 11, 9, 10) == [(0, 3, pytest.approx(10, abs=0.1))]


def test_two_levels():
    assert levels(3, 3, 3, 12, 12) == [(0, 2, 3.0), (3, 4, 12.0)]


def test_levels_that_are_close_are_one():
    assert len(levels(4, 4, 4, 5.5, 5.5, 5.5)) == 1


def test_a_lone_budget():
    assert levels(7) == [(0, 0, 7.0)]
