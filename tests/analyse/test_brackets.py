"""Where a regime begins and ends."""

import numpy as np

from speedbump.analyse.brackets import find_brackets


def test_sharp_edges():
    brackets = find_brackets(2, 3, np.array([0, 0, 1, 1, 0.0]))
    assert (brackets.onset, brackets.recovery) == ((1, 2), (3, 4))


def test_doubtful_budgets_widen_the_bracket():
    brackets = find_brackets(2, 4, np.array([0, 0.3, 0.7, 1, 0.9, 0.1, 0]))
    assert (brackets.onset, brackets.recovery) == ((0, 3), (3, 6))


def test_open_ends_have_no_normal_side():
    brackets = find_brackets(0, 1, np.array([1, 1.0]))
    assert (brackets.onset, brackets.recovery) == ((None, 0), (1, None))


def test_a_regime_of_doubtful_budgets_keeps_its_own_ends():
    brackets = find_brackets(1, 2, np.array([0, 0.8, 0.8, 0]))
    assert (brackets.onset, brackets.recovery) == ((0, 2), (1, 3))
