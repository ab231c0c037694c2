"""The smallest slow-down that could have been seen."""

import numpy as np
import pytest

from bench.curves import Scenario, simulate
from speedbump.analyse.segments import dissect


@pytest.mark.simulation
@pytest.mark.parametrize("n", [12, 40])
@pytest.mark.parametrize(("sigma", "repeats"), [(0.02, 5), (0.15, 5), (0.05, 2)])
def test_a_slowdown_as_large_as_said_is_seen(n, sigma, repeats):
    seen = []
    for seed in range(40):
        smooth = dissect(simulate(Scenario(n, repeats, sigma=sigma, trend="affine"), np.random.default_rng(seed)).curve)
        factor = float(np.median(smooth.detectable[2:-2]))
        slow = Scenario(n, repeats, sigma=sigma, trend="affine", bumps=((factor, 1, "mid"),))
        drawn = simulate(slow, np.random.default_rng(seed))
        seen.append([(s.first, s.last) for s in dissect(drawn.curve).accepted] == drawn.truth.regimes)
    assert np.mean(seen) >= (0.85 if repeats > 2 else 0.65)


def test_noise_and_few_repeats_hide_more(make_curve):
    quiet, single = dissect(make_curve()).detectable, dissect(make_curve(repeats=1)).detectable
    assert (quiet < single).all()
    assert quiet.min() >= 1.4
