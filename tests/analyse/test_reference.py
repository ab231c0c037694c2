"""A curve that is slow at every budget, settled by its twin under another stack or on another machine."""

import numpy as np
import polars as pl

from bench.requests import Run, requests_table
from speedbump.analyse.regimes import find_regimes

BUDGETS = range(128, 769, 64)


def twins(ratios: dict[str, float], machines: tuple[str, str] = ("m", "m")) -> pl.DataFrame:
    """Every model under an old and a new stack; ``ratios``: how much slower it is under the new one."""
    rng = np.random.default_rng(0)
    runs = []
    for model, ratio in ratios.items():
        for stack, machine, factor in (("old", machines[0], 1.0), ("new", machines[1], ratio)):
            place = (("model", model), ("stack", stack), ("machine", machine))
            for n in BUDGETS:
                times = (0.1 + 0.01 * n) * factor * np.exp(rng.normal(0, 0.03, 5))
                runs.append(Run(f"{model}-{stack}", n, tuple(times.tolist()), changes=place))
    return requests_table(runs)


def verdicts(requests: pl.DataFrame) -> dict[str, str]:
    return dict(find_regimes(requests).series.select("series", "verdict").rows())


def test_slow_under_one_stack_of_the_machine():
    found = find_regimes(twins({"a": 8.0}))
    row = found.series.filter(series="a-new").row(0, named=True)
    assert row["verdict"] == "excess"
    assert row["reason"].startswith("slow at every budget: 7.9 times (7.7 to 8.3)")
    assert "old" in row["reason"]
    (regime,) = found.regimes.iter_rows(named=True)
    assert regime["open_left"]
    assert regime["open_right"]
    assert regime["slowdown_neighbour"] is None
    assert found.series.filter(series="a-old")["verdict"].item() == "smooth"


def test_a_stack_that_is_a_little_slower_is_no_regime():
    assert set(verdicts(twins({"a": 1.5})).values()) == {"smooth"}


def test_a_machine_that_is_slower_for_all_is_no_regime():
    requests = twins({"a": 4.0, "b": 4.2, "c": 3.9}, ("fast", "slow"))
    assert set(verdicts(requests).values()) == {"smooth"}


def test_one_model_of_a_slower_machine():
    found = verdicts(twins({"a": 40.0, "b": 4.2, "c": 3.9, "d": 4.1}, ("fast", "slow")))
    assert [series for series, verdict in found.items() if verdict == "excess"] == ["a-new"]


def test_another_machine_alone_says_nothing():
    assert set(verdicts(twins({"a": 40.0}, ("fast", "slow"))).values()) == {"smooth"}
