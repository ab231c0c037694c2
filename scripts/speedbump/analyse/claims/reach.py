"""Claims on how far it reaches: other devices, models, chips and versions."""

from itertools import pairwise

from speedbump.analyse.claims.answer import CANNOT_TELL, DIFFERS, HOLDS, Answer, above, verdicts
from speedbump.analyse.claims.evidence import AbsentError, Evidence, Series, matching, memory_gb
from speedbump.analyse.claims.regimes import BASELINE, GPT2, MEDIUM
from speedbump.analyse.confidence import Interval
from speedbump.analyse.ratio import latency_ratio

FAMILIES = ("bloom-560m", "opt-350m")
SMALL = ("distilgpt2", "gpt2")
CROSSOVER = 128


def cpu_is_smooth(evidence: Evidence) -> Answer:
    """Holds where all four GPT-2 models are smooth on the CPU; differs where one has a slow regime. Value: the number
    of slow regimes.
    """
    return _smooth_on("cpu", evidence)


def cuda_is_smooth(evidence: Evidence) -> Answer:
    """Holds where all four GPT-2 models are smooth on CUDA; differs where one has a slow regime. Value: the number of
    slow regimes.
    """
    return _smooth_on("cuda", evidence)


def other_families_do_too(evidence: Evidence) -> Answer:
    """Holds where BLOOM-560M and OPT-350M both have slow regimes on MPS; differs where one is smooth. Values: how many
    have one, of how many.
    """
    every = evidence.several(FAMILIES, **BASELINE)
    slow = sum(series.verdict == "slow regimes" for series in every)
    outcome = HOLDS if slow == len(FAMILIES) else CANNOT_TELL
    if any(series.verdict == "smooth" for series in every):
        outcome = DIFFERS
    return Answer(outcome, verdicts(every), (float(slow), float(len(every))), " of ")


def smaller_chip_is_slow_sooner(evidence: Evidence) -> Answer:
    """Holds where DistilGPT-2 or GPT-2 has a slow regime on the study's machine with the least memory, and none on the
    one with the most; differs where both are smooth on the one with the least. Value: how many of them are slow there.
    Needs two machines.
    """
    every = [s for model in SMALL for s in matching(evidence.everywhere, {**BASELINE, "model": model})]
    sizes = {series.machine: gb for series in every if (gb := memory_gb(series.machine)) is not None}
    if len(set(sizes.values())) < 2:
        raise AbsentError("needs distilgpt2 or gpt2 on mps on two machines of different memory: list a bundle")
    least, most = min(sizes, key=lambda m: sizes[m]), max(sizes, key=lambda m: sizes[m])
    if not {least, most} & {series.machine for series in evidence.here}:
        raise AbsentError(f"compares {least} with {most}")
    small, large = ([s for s in every if s.machine == machine] for machine in (least, most))
    n_slow = len({series.model for series in small if series.regimes})
    outcome = CANNOT_TELL
    if n_slow and all(series.verdict == "smooth" for series in large):
        outcome = HOLDS
    elif all(series.verdict == "smooth" for series in small):
        outcome = DIFFERS
    return Answer(outcome, f"{least}: {verdicts(small)}; {most}: {verdicts(large)}", (float(n_slow),))


def anomaly_persists_over_versions(evidence: Evidence) -> Answer:
    """Holds where GPT-2 Medium on MPS has a slow regime under every version of PyTorch measured on the machine; differs
    where it is smooth under one. Values: under how many it has one, of how many. Needs two versions.
    """
    machines = {series.machine for series in evidence.here}
    own = [s for s in matching(evidence.everywhere, MEDIUM) if s.machine in machines and len(s.points) > 1]
    versions = {_torch(series) for series in own}
    if len(versions) < 2:
        raise AbsentError("needs gpt2-medium on mps under two versions of PyTorch")
    slow = {_torch(series) for series in own if series.regimes}
    smooth = {_torch(series) for series in own if series.verdict == "smooth"} - slow
    outcome = HOLDS if slow == versions else DIFFERS if smooth else CANNOT_TELL
    why = "; ".join(f"{series.stack}: {series.verdict}" for series in own)
    return Answer(outcome, why, (float(len(slow)), float(len(versions))), " of ")


def _torch(series: Series) -> str:
    """``torch-2.13.0``, of a stack's slug."""
    return next((part for part in series.stack.split("_") if part.startswith("torch-")), series.stack)


def larger_models_gain_more_on_mps(evidence: Evidence) -> Answer:
    """Holds where CPU over MPS latency at 128 tokens is surely larger for the largest GPT-2 model than for the
    smallest, and falls surely from none to the next larger; differs where it is surely smaller, or falls. Values: the
    ratios, smallest model first.
    """
    ratios: dict[str, Interval] = {}
    for model in GPT2:
        try:
            mps = evidence.series(CROSSOVER, model=model, **BASELINE)
            cpu = evidence.series(CROSSOVER, **{**BASELINE, "model": model, "device": "cpu"})
        except AbsentError:
            continue
        ratio = latency_ratio(cpu.points[CROSSOVER].latency, mps.points[CROSSOVER].latency)
        ratios |= {model: ratio} if ratio else {}
    if len(ratios) < 2:
        raise AbsentError(f"needs two GPT-2 models on cpu and mps at {CROSSOVER} tokens")
    gains = list(ratios.values())
    outcome = above(latency_ratio(gains[-1], gains[0]), 1.0)
    falls = [above(latency_ratio(before, after), 1.0) for before, after in pairwise(gains)]
    if HOLDS in falls:
        outcome = DIFFERS
    return Answer(outcome, ", ".join(ratios), tuple(gain.value for gain in gains))


def _smooth_on(device: str, evidence: Evidence) -> Answer:
    every = evidence.several(GPT2, **{**BASELINE, "device": device})
    count = sum(len(series.regimes) for series in every)
    missing = [model for model in GPT2 if model not in {series.model for series in every}]
    outcome = HOLDS if _all_smooth(every) and not missing else CANNOT_TELL
    why = verdicts(every) + (f"; without {', '.join(missing)}" if missing else "")
    return Answer(DIFFERS if count else outcome, why, (float(count),))


def _all_smooth(every: list[Series]) -> bool:
    return all(series.verdict == "smooth" for series in every)
