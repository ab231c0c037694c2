"""The rules: what each hypothesis predicts of what can be observed, in one table, and how a verdict follows."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from speedbump.analyse.mechanism.sight import Observation

SUPPORTED, CONTRADICTED, CANNOT_TELL, NOTHING = "supported", "contradicted", "can't tell", "nothing to explain"
AGREES, DISAGREES, OPEN, UNTESTED = "agrees", "disagrees", "can't tell", "not tested"

STATEMENTS = {
    "H1": "The allocator keeps one buffer of every size, and this pool outgrows the memory",
    "H1b": "The recovery is a purge of that pool at the allocator's high watermark",
    "H2": "A graph is compiled for every new shape, so that first passes are slow",
    "H3": "The system compresses and swaps memory",
    "H4": "Buffers lose their place in memory while the device idles",
    "H5": "The clock drops as the device gets hot",
    "H6": "A slower kernel is selected at certain shapes",
    "H7": "The previous process is still alive",
}
BRINGS_ABOUT = {"H1": ("H3",)}
"""What a hypothesis, once supported, explains in its turn: a pool that outgrows the memory makes the system swap."""


@dataclass(frozen=True)
class Range:
    """Values that agree with a prediction, ``low`` to ``high``, and values that contradict it, below ``too_low`` or
    above ``too_high``. Between the two nothing is said: another mechanism may act as well.
    """

    low: float = -math.inf
    high: float = math.inf
    too_low: float = -math.inf
    too_high: float = math.inf

    @property
    def words(self) -> str:
        """``below 0.35``, ``above 1.4``, ``0.65 to 1.35``."""
        if math.isinf(self.low):
            return f"below {self.high:g}"
        if math.isinf(self.high):
            return f"above {self.low:g}"
        return f"{self.low:g} to {self.high:g}"

    @property
    def against(self) -> str:
        """``above 0.85``; empty when no value contradicts."""
        parts = [f"below {self.too_low:g}"] if not math.isinf(self.too_low) else []
        parts += [f"above {self.too_high:g}"] if not math.isinf(self.too_high) else []
        return " or ".join(parts)

    def outcome(self, seen: Observation) -> str:
        """agrees, when the whole 95 % interval does; disagrees, when all of it contradicts; can't tell; not tested."""
        if seen.value is None or math.isnan(seen.value):
            return UNTESTED
        if self.low <= seen.low and seen.high <= self.high:
            return AGREES
        return DISAGREES if seen.high < self.too_low or seen.low > self.too_high else OPEN


@dataclass(frozen=True)
class Prediction:
    """What a hypothesis expects of an observable. needed: it is supported only if this was tested and agrees."""

    hypothesis: str
    observable: str
    range: Range
    needed: bool
    words: str


# Of the slow-down's extra time, what an arm keeps of it, or gains where the reference has none.
GONE = Range(high=0.35, too_high=0.85)
STAYS = Range(low=0.65, too_low=0.15)
UNCHANGED = Range(low=0.65, high=1.35, too_low=0.15)
APPEARS = Range(low=0.5, too_low=0.25)
NOWHERE = Range(high=0.25)
# Of two latencies.
SLOW = Range(low=1.4, too_low=1.3)
NOT_SLOW = Range(high=1.3, too_high=1.4)
# Of what is seen or not.
YES = Range(low=0.9, too_low=0.5)
ALIKE = Range(low=0.9)
# Of powers of the length.
SQUARE = Range(low=1.4, too_low=1.2)

PREDICTIONS = (
    Prediction("H1", "regime", SLOW, True, "measured requests are slow"),
    Prediction("H1", "emptied_kept", GONE, True, "at the onset, gone when the cache is emptied between requests"),
    Prediction("H1", "static_kept", GONE, True, "gone with a cache that does not grow"),
    Prediction("H1", "driver_power", SQUARE, True, "driver memory grows about with the square of the length"),
    Prediction("H1", "rest_kept", UNCHANGED, True, "rest changes nothing"),
    Prediction("H1", "rest_gained", NOWHERE, True, "nor does it make other lengths slow"),
    Prediction("H1", "ballast_gained", APPEARS, False, "other memory in use makes shorter lengths slow"),
    Prediction("H1", "pool_settles", Range(high=0.1, too_high=0.4), False, "the pool is full after the first request"),
    Prediction("H1", "pool_at_onset", ALIKE, False, "every onset lies at the same size of the pool"),
    Prediction("H1b", "regime", SLOW, True, "measured requests are slow"),
    Prediction("H1b", "recovery_seen", YES, True, "fast again at longer lengths"),
    Prediction("H1b", "driver_power", SQUARE, True, "driver memory grows about with the square of the length"),
    Prediction("H1b", "driver_drop", Range(low=0.25, too_low=0.1), True, "driver memory drops at recovered lengths"),
    Prediction("H1b", "watermark_moved", APPEARS, True, "edges move with the allocator's watermarks"),
    Prediction("H2", "first_pass", SLOW, True, "a process's first request is slow at any length"),
    Prediction("H2", "first_pass_emptied", STAYS, True, "emptying the cache does not change that"),
    Prediction("H2", "first_pass_eager", Range(low=1.3, too_low=1.1), True, "it is worse with eager attention"),
    Prediction("H3", "regime", SLOW, True, "measured requests are slow"),
    Prediction("H3", "swap_grown", Range(low=0.25, too_low=0.1), True, "swap grows with slow runs"),
    Prediction("H3", "ballast_gained", APPEARS, True, "other memory in use makes shorter lengths slow"),
    Prediction("H3", "rest_kept", UNCHANGED, True, "rest changes nothing"),
    Prediction("H3", "rest_gained", NOWHERE, True, "nor does it make other lengths slow"),
    Prediction("H3", "sentinel_share", Range(high=0.1), True, "a fixed workload, which fits, is as fast as ever"),
    Prediction("H4", "regime", SLOW, True, "measured requests are slow"),
    Prediction("H4", "first_in_regime", GONE, True, "the first request, which no pause precedes, is normal"),
    Prediction("H4", "rest_gained", APPEARS, True, "rest makes shorter lengths slow"),
    Prediction("H4", "rest_kept", STAYS, True, "and does not make the regime fast"),
    Prediction("H4", "swap_grown", Range(high=0.1), True, "no swap"),
    Prediction("H4", "sentinel_share", Range(high=0.1, too_high=0.5), False, "a fixed workload is as fast as ever"),
    Prediction("H5", "regime", SLOW, True, "measured requests are slow"),
    Prediction("H5", "sentinel_share", Range(low=0.6, too_low=0.1), True, "a fixed workload slows down as much"),
    Prediction("H5", "rest_kept", GONE, True, "gone with rest between requests"),
    Prediction("H5", "emptied_kept", STAYS, False, "emptying the cache changes nothing"),
    Prediction("H6", "regime", SLOW, True, "measured requests are slow"),
    Prediction(
        "H6", "position_agreement", Range(low=0.9, too_low=0.8), True, "a step's time follows its position alone"
    ),
    Prediction("H6", "first_in_regime", UNCHANGED, True, "the first request is as slow as later ones"),
    Prediction("H6", "emptied_kept", STAYS, True, "emptying the cache changes nothing"),
    Prediction("H6", "rest_kept", UNCHANGED, True, "rest changes nothing"),
    Prediction("H6", "order_matters", Range(high=0.3, too_high=0.7), False, "the order of lengths does not matter"),
    Prediction("H6", "length_at_onset", ALIKE, False, "every onset lies at the same total length"),
    Prediction("H7", "regime", NOT_SLOW, True, "not slow once the previous process has ended"),
    Prediction("H7", "running_slowdown", SLOW, True, "slow while it still runs"),
)
"""The table. Nothing else decides a verdict."""

RULE = (
    "A hypothesis is contradicted when one of its predictions disagrees with what was seen, supported when all that "
    "it needs were tested and agree and none disagrees, and cannot be told otherwise. What was not tested supports "
    "nothing."
)


@dataclass(frozen=True)
class Verdict:
    """One hypothesis: its verdict, why, and each prediction with its outcome."""

    hypothesis: str
    verdict: str
    why: str
    outcomes: tuple[tuple[Prediction, str], ...]


def judge(seen: Mapping[str, Observation]) -> list[Verdict]:
    """The verdict on every hypothesis, from observations by the name of their observable."""
    nothing = nothing_to_explain(seen)
    return [_judge_one(hypothesis, seen, nothing) for hypothesis in STATEMENTS]


def nothing_to_explain(seen: Mapping[str, Observation]) -> bool:
    """Whether the reference is smooth, and neither its first passes nor a running predecessor are seen to be slow."""
    others = (SLOW.outcome(seen[name]) for name in ("first_pass", "running_slowdown"))
    return NOT_SLOW.outcome(seen["regime"]) == AGREES and AGREES not in others


def named(verdicts: Iterable[Verdict]) -> list[str]:
    """The hypotheses that explain what was seen."""
    return explaining(verdict.hypothesis for verdict in verdicts if verdict.verdict == SUPPORTED)


def explaining(supported: Iterable[str]) -> list[str]:
    """Supported hypotheses, without those that another of them brings about."""
    every = list(supported)
    brought = {effect for cause in every for effect in BRINGS_ABOUT.get(cause, ())}
    return [hypothesis for hypothesis in every if hypothesis not in brought]


def _judge_one(hypothesis: str, seen: Mapping[str, Observation], nothing: bool) -> Verdict:
    outcomes = tuple((p, p.range.outcome(seen[p.observable])) for p in PREDICTIONS if p.hypothesis == hypothesis)
    if nothing:
        return Verdict(hypothesis, NOTHING, "no regime; nothing to explain", outcomes)
    against = [prediction.words for prediction, outcome in outcomes if outcome == DISAGREES]
    if against:
        return Verdict(hypothesis, CONTRADICTED, f"predicted, and not so: {'; '.join(against)}", outcomes)
    needed = [(prediction, outcome) for prediction, outcome in outcomes if prediction.needed]
    if all(outcome == AGREES for _, outcome in needed):
        agree = sum(outcome == AGREES for _, outcome in outcomes)
        return Verdict(
            hypothesis, SUPPORTED, f"{agree} of {len(outcomes)} predictions seen, none contradicted", outcomes
        )
    untested = [p.words for p, outcome in needed if outcome == UNTESTED]
    vague = [p.words for p, outcome in needed if outcome == OPEN]
    parts = [f"not tested: {'; '.join(untested)}"] if untested else []
    parts += [f"neither shown nor refuted: {'; '.join(vague)}"] if vague else []
    return Verdict(hypothesis, CANNOT_TELL, ". ".join(parts), outcomes)
