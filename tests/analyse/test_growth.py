"""Growth of counters, on numbers whose power is known."""

import numpy as np
import pytest

from speedbump.analyse.mechanism.growth import fit_growth

LENGTHS = np.array([128.0, 256, 384, 448, 512, 576, 640])
NARROW = np.array([448.0, 480, 496, 512, 576, 624])


@pytest.mark.parametrize("x", [LENGTHS, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_power_is_found_with_its_kind(x, power):
    """Over a narrow range too: a counter is not negative at the start."""
    rng = np.random.default_rng(1)
    y = (1.4e9 + 1e5 * 640 ** (2 - power) * x**power) * np.exp(rng.normal(0, 0.002, len(x)))
    fit = fit_growth(x, y)
    assert fit.low <= power <= fit.high
    if len(x) == len(LENGTHS):
        assert fit.kind == {1.0: "linear", 2.0: "quadratic"}[power]
    else:
        assert fit.kind in ("between", {1.0: "linear", 2.0: "quadratic"}[power])


def test_the_pool_s_own_sum_is_quadratic_and_not_linear():
    prompt = 65
    pool = [196_608 * sum(range(prompt + 1, prompt + int(n))) + 1.4e9 for n in LENGTHS]
    fit = fit_growth(LENGTHS, np.array(pool))
    assert fit.kind == "quadratic"
    assert 1.5 < fit.power < 2


def test_flat_and_falling():
    assert fit_growth(LENGTHS, np.full(7, 5e9)).kind == "flat"
    assert fit_growth(LENGTHS, np.zeros(7)).kind == "flat"
    assert fit_growth(LENGTHS, np.array([9e9, 8e9, 7e9, 6e9, 5e9, 4e9, 3e9])).kind == "between"
    assert fit_growth(np.array([1.0, 2, 2]), np.array([1.0, 2, 2])) is None


def test_several_values_of_one_x_count_with_their_median():
    x = np.repeat(LENGTHS, 3)
    y = np.repeat(1e9 + 1e5 * LENGTHS**2, 3)
    y[::3] *= 3
    assert fit_growth(x, y).n == len(LENGTHS)
    assert fit_growth(x, y).kind == "quadratic"
