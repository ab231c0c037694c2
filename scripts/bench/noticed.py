"""Whether slow-downs of the stated size are noticed, in curves measured again under other noise."""

import zlib
from dataclasses import dataclass

import numpy as np

from bench.curves import Scenario, simulate
from speedbump.analyse.curve import Curve, from_repeats
from speedbump.analyse.noticed import find_noticeable
from speedbump.analyse.segments import dissect
from speedbump.analyse.verdict import judge

PROMISED = 0.9
WITHIN = 1.25
"""A stated size this many times too large would still be noticed as often as promised."""


@dataclass
class NoticedScore:
    """Of a scenario: smooth series, those with a stated size, the stated sizes, and how many slow-downs of that size,
    and of one WITHIN times smaller, were noticed in a second measurement of the same curve.
    """

    smooth: int
    stated: list[float]
    at_size: int
    below: int

    @property
    def share(self) -> float:
        return self.at_size / max(len(self.stated), 1)

    @property
    def share_below(self) -> float:
        return self.below / max(len(self.stated), 1)


def noticed_scenarios() -> dict[str, Scenario]:
    """Smooth curves of every kind of noise that the finder is held to."""
    made: dict[str, Scenario] = {}
    for n in (6, 12, 40):
        for sd in (0.02, 0.05, 0.15):
            made[f"mix/n{n}/s{sd}"] = Scenario(n, sigma=sd)
        for repeats in (1, 2, 3, 10):
            made[f"mix/n{n}/r{repeats}"] = Scenario(n, repeats)
        made[f"quiet/n{n}/r2"] = Scenario(n, 2, sigma=0.012, roughness=0.005, outliers=0.0)
        made[f"quiet/n{n}/r1"] = Scenario(n, 1, sigma=0.012, roughness=0.005, outliers=0.0)
        made[f"out10/n{n}"] = Scenario(n, outliers=0.10)
        made[f"drift30/n{n}"] = Scenario(n, drift=0.3)
        made[f"noise-grows/n{n}"] = Scenario(n, sigma=0.03, noise_grows=5)
        made[f"processes/n{n}"] = Scenario(n, process_sd=0.05, cold_share=0.1, cold_factor=1.2)
        made[f"flat/n{n}"] = Scenario(n, trend="flat")
    for trend in SHAPES_OF_TILES:
        made[f"{trend}/n40"] = Scenario(40, trend=trend)
    for n in (4, 5):
        made[f"mix/n{n}/s0.05"] = Scenario(n)
    return made


SHAPES_OF_TILES = ("tile", "saw", "plateau")


def score_noticed(name: str, scenario: Scenario, n_series: int, end: bool) -> NoticedScore:
    """Score the stated size at a random inner budget, or at one of the two ends, of ``n_series`` series."""
    score = NoticedScore(0, [], 0, 0)
    for k in range(n_series):
        seed = [zlib.crc32(name.encode()), k]
        first = simulate(scenario, np.random.default_rng(seed), np.random.default_rng([*seed, 1])).curve
        anatomy = dissect(first)
        if judge(anatomy).verdict != "smooth":
            continue
        score.smooth += 1
        rng = np.random.default_rng([*seed, 2])
        i = int(rng.choice([0, first.n - 1])) if end else int(rng.integers(1, first.n - 1))
        stated = float(find_noticeable(anatomy, [i]).noticed[i])
        if np.isnan(stated):
            continue
        score.stated.append(stated)
        for kind, size in (("at_size", stated), ("below", stated / WITHIN)):
            again = simulate(scenario, np.random.default_rng(seed), rng).curve
            noticed = judge(dissect(_slowed(again, i, size))).verdict != "smooth"
            setattr(score, kind, getattr(score, kind) + noticed)
    return score


def _slowed(curve: Curve, i: int, slowdown: float) -> Curve:
    seconds = [np.exp(curve.pooled(k)) * (slowdown if k == i else 1.0) for k in range(curve.n)]
    return from_repeats(curve.budget, seconds)
