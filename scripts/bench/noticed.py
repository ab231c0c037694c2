"""Whether slow-downs of the stated size are noticed, in curves measured again under other noise."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bench.curves import Scenario, simulate
from speedbump.analyse.curve import Curve, from_repeats
from speedbump.analyse.noticed import find_noticeable
from speedbump.analyse.segments import dissect
from speedbump.analyse.verdict import judge

HEAD = """
## What would have been noticed

A smooth series states, for a length, the slow-down that would have been noticed. The same curve is then drawn again
under other noise, with that length slow by the stated size, and by a size 1.25 times smaller; noticed means that the
verdict is no longer smooth. At least 90 % should be noticed at the stated size, and less 1.25 times below it, or the
statement would be too cautious. {n_series} series a scenario, so a share of 90 % is known to some 5 points.
"""
DASHES = "| --- | --- | --- | --- | --- | --- |"
PROMISED = 0.9
WITHIN = 1.25
"""A stated size this many times too large would still be noticed as often as promised."""


@dataclass
class NoticedScore:
    """Of a scenario: smooth series, the sizes that they stated, and how many slow-downs of that size, and of one WITHIN
    times smaller, were noticed in a second measurement of the same curve.
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
    for trend in ("tile", "saw", "plateau"):
        made[f"{trend}/n40"] = Scenario(40, trend=trend)
    for n in (4, 5):
        made[f"mix/n{n}/s0.05"] = Scenario(n)
    return made


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


def render_noticed(scores: Mapping[tuple[str, bool], NoticedScore], n_series: int) -> str:
    """The section of the page. ``scores``: by scenario, and whether of the ends."""
    parts = [HEAD.format(n_series=n_series), _summary(scores)]
    lines = [
        "| scenario | length | smooth series | stated, median | noticed % | noticed % 1.25 times smaller |",
        DASHES,
    ]
    for (name, end), score in scores.items():
        place, size = "end" if end else "inner", float(np.median(score.stated)) if score.stated else float("nan")
        figures = f"{size:.2f} | {100 * score.share:.0f} | {100 * score.share_below:.0f}"
        lines.append(f"| {name} | {place} | {score.smooth} | {figures} |")
    return "\n".join([*parts, "", *lines]) + "\n"


def _summary(scores: Mapping[tuple[str, bool], NoticedScore]) -> str:
    names = {key: f"{key[0]}, {'end' if key[1] else 'inner'}" for key in scores}
    least = min(scores, key=lambda key: scores[key].share)
    most = max(scores, key=lambda key: scores[key].share_below)
    n = sum(len(score.stated) for score in scores.values())
    mean = sum(score.at_size for score in scores.values()) / max(n, 1)
    return (
        f"Noticed at the stated size: {100 * mean:.1f} % of all, and {100 * scores[least].share:.0f} % in the worst "
        f"scenario ({names[least]}). {WITHIN} times smaller: at most {100 * scores[most].share_below:.0f} % "
        f"({names[most]})."
    )


def _slowed(curve: Curve, i: int, slowdown: float) -> Curve:
    seconds = [np.exp(curve.pooled(k)) * (slowdown if k == i else 1.0) for k in range(curve.n)]
    return from_repeats(curve.budget, seconds)
