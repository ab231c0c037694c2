"""Families of scenarios that came after the method, each with its goals: what users brought, and fresh smooth curves.

All are judged from tables of requests (bench.tables), in one process a length, nothing measured again.
"""

from dataclasses import replace

from bench.curves import FRESH, Scenario
from bench.load import Load

QUIET = Scenario(0, sigma=0.02, roughness=0.01, outliers=0.0, trend="affine", grid="even", table=True)
"""A machine at rest: 2 % between requests, 1 % between lengths. Its number of lengths is still to be set."""
DOUBLING, QUARTERS = "x2", "x1.25"
GEOMETRIC = ((DOUBLING, 6), (DOUBLING, 8), (DOUBLING, 12), (QUARTERS, 12), (QUARTERS, 20))


def families() -> dict[str, Scenario]:
    """Every scenario by its name, which begins with its family and seeds the draws."""
    return {
        **_fresh(),
        **_geometric(),
        **_behind_contexts(),
        **_single_requests(),
        **_steps(),
        **_rates(),
        **_periodic(),
        **_too_fast(),
        **_stopped(),
        **_loaded(),
    }


def _fresh() -> dict[str, Scenario]:
    """Smooth curves of kinds, and of spacings, that nothing was chosen on."""
    return {
        f"fresh/{kind}/{grid}/n{n}/s{sd}": replace(QUIET, n=n, grid=grid, trend=kind, sigma=sd, outliers=0.03)
        for kind in FRESH
        for grid, n in (("even", 10), ("even", 40), ("uneven", 24), (QUARTERS, 16))
        for sd in (0.02, 0.08)
    }


def _geometric() -> dict[str, Scenario]:
    """Lengths far apart."""
    made = {}
    for grid, n in GEOMETRIC:
        for trend in ("context", "affine", "quad"):
            at = replace(QUIET, n=n, grid=grid, trend=trend)
            for sd in (0.02, 0.08):
                made[f"geometric/null/{trend}/{grid}/n{n}/s{sd}"] = replace(at, sigma=sd)
            for factor in (2, 5):
                made[f"geometric/bump/F{factor}/{trend}/{grid}/n{n}"] = replace(at, bumps=((factor, 1, "mid"),))
    return made


def _behind_contexts() -> dict[str, Scenario]:
    """The same answer behind contexts of growing length: a curve that is flat, or nearly so."""
    made = {}
    for n in (10, 32):
        at = replace(QUIET, n=n, trend="context")
        for sd in (0.01, 0.05):
            made[f"behind/null/n{n}/s{sd}"] = replace(at, sigma=sd)
        for factor in (2, 5):
            for width in (1, 3):
                made[f"behind/bump/F{factor}/w{width}/n{n}"] = replace(at, bumps=((factor, width, "mid"),))
    return made


def _single_requests() -> dict[str, Scenario]:
    """One request a length. ``odd``: three in a hundred are disturbed."""
    made = {}
    for n in (6, 10, 32):
        for sd in (0.005, 0.05):
            at = replace(QUIET, n=n, repeats=1, sigma=sd, roughness=0.005)
            made[f"single/null/n{n}/s{sd}"] = at
            made[f"single/odd/n{n}/s{sd}"] = replace(at, outliers=0.03)
            made[f"single/spike/F2/n{n}/s{sd}"] = replace(at, bumps=((2, 1, "mid"),))
    return made


def _steps() -> dict[str, Scenario]:
    """A level that stays. ``up`` and ``down``: by so many times."""
    made = {}
    for grid, n, trend in (
        ("even", 10, "affine"),
        ("even", 32, "affine"),
        ("even", 10, "context"),
        ("even", 32, "context"),
        (DOUBLING, 10, "affine"),
        (QUARTERS, 20, "affine"),
    ):
        for factor in (2, 5, 9):
            at = replace(QUIET, n=n, grid=grid, trend=trend)
            made[f"steps/up/F{factor}/{trend}/{grid}/n{n}"] = replace(at, stays=float(factor))
            if factor < 9:
                made[f"steps/down/F{factor}/{trend}/{grid}/n{n}"] = replace(at, stays=1 / factor)
    return made


def _rates() -> dict[str, Scenario]:
    """Each further token costs more from some length on; and curves that bend without that."""
    made = {}
    for n in (10, 20, 40):
        at = replace(QUIET, n=n, roughness=0.005)
        for factor in (1.5, 2, 5):
            for sd in (0.01, 0.03):
                made[f"rate/F{factor}/n{n}/s{sd}"] = replace(at, sigma=sd, rate=float(factor))
        for trend in ("quad", "power", "kink1.3"):
            made[f"rate/null/{trend}/n{n}"] = replace(at, trend=trend)
    return made


def _periodic() -> dict[str, Scenario]:
    """Every second length slow, or every second pair of them; and tiles, which are normal."""
    made = {}
    for n in (16, 32):
        for period in (2, 4):
            for factor in (1.5, 2.0):
                for trend in ("affine", "context"):
                    at = replace(QUIET, n=n, trend=trend, period=period, alternating=factor)
                    made[f"periodic/F{factor:g}/every{period}/{trend}/n{n}"] = at
        made[f"periodic/null/n{n}"] = replace(QUIET, n=n, trend="tile1.25")
    return made


def _too_fast() -> dict[str, Scenario]:
    """One length far too fast, as a request that ended early is; alone, and beside a regime."""
    made = {}
    for n in (15, 29):
        for factor in (3.0, 5.0):
            at = replace(QUIET, n=n, fast=factor)
            made[f"fast/null/{factor:g}/n{n}"] = at
            made[f"fast/bump/{factor:g}/F5/w2/n{n}"] = replace(at, bumps=((5, 2, "mid"),))
    return made


def _stopped() -> dict[str, Scenario]:
    """The largest lengths are stopped before a normal request would end: nobody knows what they take."""
    return {
        f"stopped/{by}/last{tail}/{trend}/n{n}": replace(QUIET, n=n, trend=trend, stopped=tail, stopped_by=by)
        for by in ("guard", "limit")
        for n, tail in ((6, 1), (12, 1), (12, 4), (40, 10))
        for trend in ("affine", "quad")
    }


def _loaded() -> dict[str, Scenario]:
    """Other work on the machine. ``known``: it was seen at rest as well. ``unseen``: only the fixed workload tells."""
    made: dict[str, Scenario] = {}
    for n in (10, 32):
        for when in ("begins", "ends", "passes", "throughout"):
            for factor in (1.6, 3.0, 8.0):
                for ordered in (False, True):
                    order = "rising" if ordered else "random"
                    load = Load(when, factor, ordered)
                    made[f"load/{when}/x{factor:g}/{order}/n{n}"] = replace(QUIET, n=n, load=load)
        for when in ("begins", "ends", "throughout"):
            load = Load(when, 3.0, ordered=True, counted=False, known=True)
            made[f"load/{when}/unseen/known/n{n}"] = replace(QUIET, n=n, load=load)
        made[f"load/begins/x3/random/bump/n{n}"] = replace(
            QUIET, n=n, load=Load("begins", 3.0), bumps=((10, 2, "mid"),)
        )
    return made
