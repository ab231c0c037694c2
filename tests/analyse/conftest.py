"""Curves and tables that the tests of the analysis share."""

from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from bench.requests import Run, requests_table
from speedbump.analyse.curve import Array, Curve, from_repeats

BUDGETS = np.arange(128, 769, 32)


def seconds(budget: Array | int) -> Array:
    """A normal trend: 0.1 s and 10 ms a token."""
    return 0.1 + 0.01 * np.asarray(budget, float)


@pytest.fixture
def draw() -> Callable[..., list[Array]]:
    """Repeats on the trend with 3 % noise; ``slow``: budgets and their factor."""

    def draw_(slow: dict[int, float] | None = None, repeats: int = 5, seed: int = 0) -> list[Array]:
        rng = np.random.default_rng(seed)
        factors = [(slow or {}).get(int(b), 1.0) for b in BUDGETS]
        return [seconds(b) * f * np.exp(rng.normal(0, 0.03, repeats)) for b, f in zip(BUDGETS, factors, strict=True)]

    return draw_


@pytest.fixture
def make_curve(draw: Callable[..., list[Array]]) -> Callable[..., Curve]:
    def make(slow: dict[int, float] | None = None, repeats: int = 5, seed: int = 0) -> Curve:
        return from_repeats(BUDGETS, draw(slow, repeats, seed))

    return make


@pytest.fixture
def make_requests(draw: Callable[..., list[Array]]) -> Callable[..., pl.DataFrame]:
    """A ``requests`` table of one series; ``extra``: further runs."""

    def make(
        slow: dict[int, float] | None = None, repeats: int = 5, seed: int = 0, extra: tuple[Run, ...] = ()
    ) -> pl.DataFrame:
        latencies = draw(slow, repeats, seed)
        runs = [Run("s", int(b), tuple(map(float, v))) for b, v in zip(BUDGETS, latencies, strict=True)]
        return requests_table([*runs, *extra])

    return make
