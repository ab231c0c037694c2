"""Two plain thresholds to compare with: what a careful person would try first."""

import math

import numpy as np

from bench.answers import Answer
from speedbump.analyse.curve import SLOW_FROM, Array, Curve
from speedbump.analyse.segments import runs
from speedbump.analyse.summary import summarise
from speedbump.analyse.trend import powers_of, relative_nnls


def theil_sen_ratio(curve: Curve) -> Answer:
    """Budgets beyond SLOW_FROM times a Theil-Sen line in log-log."""
    x, centre = np.log(curve.budget), summarise(curve).centre
    i, j = np.triu_indices(curve.n, 1)
    slope = np.median((centre[j] - centre[i]) / (x[j] - x[i]))
    return _above(centre - slope * x - np.median(centre - slope * x))


def trimmed_envelope(curve: Curve) -> Answer:
    """Budgets beyond SLOW_FROM times a lower envelope: a non-negative polynomial fitted again and again to
    what lies below 1.35 times itself.
    """
    x, summary, terms = np.log(curve.budget), summarise(curve), powers_of(curve.budget)
    centre, weight = summary.centre, 1 / (summary.variance + 0.05**2)
    by_token = centre - x
    start = by_token[np.argsort(by_token)[curve.n // 10]]
    keep, fit = by_token <= start + np.log(SLOW_FROM), start + x
    for _ in range(15):
        if keep.sum() < 2:
            break
        fit = np.log(terms @ relative_nnls(terms[keep], centre[keep], weight[keep]) + 1e-300)
        kept = centre - fit <= np.log(1.35)
        if (kept == keep).all():
            break
        keep = kept
    return _above(centre - fit)


def _above(departure: Array) -> Answer:
    spans = runs(departure > np.log(SLOW_FROM))
    unknown = (math.nan, math.nan, math.nan)
    return Answer(spans, [unknown] * len(spans), "slow regimes" if spans else "smooth")
