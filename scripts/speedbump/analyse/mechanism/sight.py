"""What is looked at: a reference curve with its arms and all that was recorded of them; and what an observation is."""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

import polars as pl

from speedbump.analyse.confidence import Interval
from speedbump.analyse.mechanism.arms import Arm, Curve, Reference, Regime
from speedbump.analyse.mechanism.effects import Effect, effect_of, slow_downs
from speedbump.grid.axes import REST


@dataclass(frozen=True)
class Observation:
    """One observed number with its 95 % interval. ``value`` None: not seen, and ``words`` says what would show it.

    arm: what it was seen in.  n: how many lengths, cells or requests it rests on.
    """

    value: float | None
    words: str
    low: float = math.nan
    high: float = math.nan
    arm: str = "reference"
    n: int = 0


def unseen(words: str) -> Observation:
    return Observation(None, words)


def seen(interval: Interval, words: str, arm: str = "reference", n: int = 1) -> Observation:
    return Observation(interval.value, words, interval.low, interval.high, arm, n)


def exactly(value: float, words: str, arm: str = "reference", n: int = 1) -> Observation:
    return Observation(value, words, value, value, arm, n)


@dataclass(frozen=True)
class Sight:
    """A reference with all that was recorded of it and its arms.

    requests, samples: tables.REQUESTS and tables.MEMORY_SAMPLES of the reference's and the arms' series.
    """

    reference: Reference
    requests: pl.DataFrame
    samples: pl.DataFrame

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """Every arm's effect, by series."""
        return {arm.curve.series: effect_of(arm.curve, arm.base, arm.priced) for arm in self.reference.arms}

    @cached_property
    def slow(self) -> dict[int, float]:
        """Log slow-downs of the reference's slow lengths."""
        return slow_downs(self.reference.curve)

    @property
    def usual(self) -> float:
        """The mean log slow-down; 0 without a regime."""
        return fmean(self.slow.values()) if self.slow else 0.0

    @property
    def regime(self) -> Regime | None:
        return self.reference.curve.regime

    @cached_property
    def alike(self) -> list[str]:
        """The reference's series, and those that differ from it in what was observed alone."""
        return [
            self.reference.curve.series,
            *(arm.curve.series for arm in self.reference.along("instrument")),
        ]

    @cached_property
    def own(self) -> pl.DataFrame:
        """Requests of the configuration to explain, however observed."""
        return self.requests.filter(pl.col("series").is_in(self.alike) & (pl.col("status") == "ok"))

    def of(self, curve: Curve) -> pl.DataFrame:
        return self.requests.filter((pl.col("series") == curve.series) & (pl.col("status") == "ok"))

    def effect(self, arm: Arm) -> Effect:
        return self.effects[arm.curve.series]

    def longest_rest(self) -> Arm | None:
        """The arm with the longest rest between requests."""
        rests = [(float(match[1]), arm) for arm in self.reference.arms if (match := REST.fullmatch(arm.value))]
        return max(rests, key=lambda rest: rest[0])[1] if rests else None


def name_of(arm: Arm) -> str:
    return f"{arm.axis} {arm.value}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"
