"""The scenarios: 346 that the method was chosen on, more that are hard in other ways, and families that came later."""

from bench.curves import Scenario
from bench.families import families

SHAPES = ("affine", "quad", "power", "kink", "tile", "saw", "plateau")


def first_scenarios() -> dict[str, Scenario]:
    """346 scenarios on 6, 12 and 40 budgets. The names seed the draws."""
    made: dict[str, Scenario] = {}
    for n in (6, 12, 40):
        for sd in (0.02, 0.05, 0.15):
            for trend in SHAPES:
                made[f"null/{trend}/n{n}/s{sd}"] = Scenario(n, sigma=sd, trend=trend)
            for repeats in (3, 10):
                made[f"null/mix/n{n}/s{sd}/r{repeats}"] = Scenario(n, repeats, sigma=sd)
        for factor in (1.3, 2, 5, 10, 21):
            for width in (1, 3, 8):
                for place in ("mid", "edge"):
                    if n == 6 and (width > 3 or (width == 3 and place == "mid")):
                        continue
                    for sd in (0.02, 0.05, 0.15) if width < 8 else (0.05, 0.15):
                        made[f"bump/F{factor}/w{width}/{place}/n{n}/s{sd}"] = Scenario(
                            n, sigma=sd, bumps=((factor, width, place),)
                        )
        for repeats in (3, 10):
            for factor in (2, 5):
                name = f"reps/F{factor}/w1/mid/n{n}/s0.15/r{repeats}"
                made[name] = Scenario(n, repeats, sigma=0.15, bumps=((factor, 1, "mid"),))
        for factor in (2, 5, 10):
            for place in ("mid", "edge"):
                name = f"quad/F{factor}/w1/{place}/n{n}"
                made[name] = Scenario(n, trend="quad", bumps=((factor, 1, place),))
            if n > 6:
                made[f"step/F{factor}/n{n}"] = Scenario(n, step=factor)
        if n >= 12:
            for factor in (2, 5, 10):
                wide = 2 if n == 12 else 3
                name = f"two/F{factor}/w1+3/n{n}"
                made[name] = Scenario(n, bumps=((factor, 1, "mid"), (factor, wide, "mid")))
            made[f"levels/F3+12/n{n}"] = Scenario(n, levels=(3, 12, 3))
    for n in (6, 12, 40):
        made[f"null/rough/n{n}/s0.05"] = Scenario(n, roughness=0.10)
        made[f"null/out10/n{n}/s0.05"] = Scenario(n, outliers=0.10)
        made[f"out10/F5/w1/mid/n{n}"] = Scenario(n, outliers=0.10, bumps=((5, 1, "mid"),))
        made[f"rough/F2/w1/mid/n{n}"] = Scenario(n, roughness=0.10, bumps=((2, 1, "mid"),))
    for factor in (5, 10):
        for width in (3, 2):
            made[f"bump/F{factor}/w{width}/mid/n6/s0.05"] = Scenario(6, bumps=((factor, width, "mid"),))
    return made


def further_scenarios() -> dict[str, Scenario]:
    """What those lack: drift, growing noise, disturbed cells, single repeats, process offsets, stopped
    requests, 3 to 5 and 600 budgets, ties, a flat curve, repeats in both states. ``confirm``: counted after
    what the findings ask for was measured again in other processes.
    """
    made: dict[str, Scenario] = {}
    for n in (6, 12, 40):
        made[f"null/drift30/n{n}"] = Scenario(n, drift=0.3)
        made[f"null/noise-grows/n{n}"] = Scenario(n, sigma=0.03, noise_grows=5)
        made[f"null/processes/n{n}"] = Scenario(n, process_sd=0.05, cold_share=0.1, cold_factor=1.2)
        made[f"null/cold-starts/n{n}"] = Scenario(n, cold_share=0.05, cold_factor=1.5, confirm=True)
        made[f"null/disturbed-cell/n{n}"] = Scenario(n, disturbed_cells=1, confirm=True)
        made[f"null/one-repeat/n{n}"] = Scenario(n, 1, confirm=True)
        made[f"null/two-repeats/n{n}"] = Scenario(n, 2)
        made[f"null/ties/n{n}"] = Scenario(n, ticks=0.25)
        made[f"null/equal/n{n}"] = Scenario(n, sigma=0.0, roughness=0.0, outliers=0.0, trend="affine")
        made[f"null/flat/n{n}"] = Scenario(n, trend="flat")
        made[f"null/cut-at-3/n{n}"] = Scenario(n, cut_at=3.0, confirm=True)
        for factor in (5, 10):
            made[f"cut/F{factor}/w1/mid/n{n}"] = Scenario(n, cut_at=3.0, bumps=((factor, 1, "mid"),), confirm=True)
            for share in (0.4, 0.6):
                made[f"bimodal/F{factor}/p{share}/n{n}"] = Scenario(n, bimodal=share, bimodal_factor=factor)
        made[f"bimodal/F2/p0.5/n{n}"] = Scenario(n, bimodal=0.5, bimodal_factor=2)
        for factor in (2, 5):
            made[f"confirmed/F{factor}/w1/mid/n{n}/s0.15"] = Scenario(
                n, sigma=0.15, bumps=((factor, 1, "mid"),), confirm=True
            )
            made[f"one-repeat/F{factor}/w1/mid/n{n}"] = Scenario(n, 1, bumps=((factor, 1, "mid"),), confirm=True)
    for n in (3, 4, 5):
        for sd in (0.05, 0.15):
            made[f"null/mix/n{n}/s{sd}"] = Scenario(n, sigma=sd)
        made[f"bump/F5/w1/mid/n{n}"] = Scenario(n, bumps=((5, 1, "mid"),))
    for sd in (0.05, 0.15):
        made[f"null/mix/n600/s{sd}"] = Scenario(600, sigma=sd)
    made["null/out10/n600"] = Scenario(600, outliers=0.10)
    made["bump/F2/w8/mid/n600"] = Scenario(600, bumps=((2, 8, "mid"),))
    made["bump/F5/w112/mid/n600"] = Scenario(600, bumps=((5, 112, "mid"),))
    return made


def all_scenarios() -> dict[str, Scenario]:
    """Every scenario by its name."""
    return first_scenarios() | further_scenarios() | families()
