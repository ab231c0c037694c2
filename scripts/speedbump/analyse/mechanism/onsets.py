"""Observations of onsets: what is the same wherever slowness begins."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from speedbump.analyse.mechanism.arms import Curve
from speedbump.analyse.mechanism.sight import Observation, Sight, exactly, unseen
from speedbump.grid.models import BYTES_PER_VALUE

Row = Mapping[str, Any]


def pool_at_onset(sight: Sight) -> Observation:
    """1 when one size of the pool lies within the onset's bracket for every prompt and dtype, 0 when none does."""
    return _one_threshold(sight, _pool, "size of the pool")


def length_at_onset(sight: Sight) -> Observation:
    """1 when one total length lies within the onset's bracket for every prompt and dtype, 0 when none does."""
    return _one_threshold(sight, lambda row, n: float(row["n_prompt"] + n), "total length")


def _one_threshold(sight: Sight, size: Callable[[Row, int], float], told: str) -> Observation:
    arms = [*sight.reference.along("n_prompt"), *sight.reference.along("dtype")]
    brackets = [_bracket(curve, size) for curve in (sight.reference.curve, *(arm.curve for arm in arms))]
    known = [bracket for bracket in brackets if bracket]
    if sight.regime is None or brackets[0] is None or len(known) < 2:
        return unseen("n_prompt or dtype, with an onset that is seen")
    low, high = max(low for low, _ in known), min(high for _, high in known)
    words = f"{'one' if low < high else 'no one'} {told} fits the onsets of {len(known)} curves"
    return exactly(float(low < high), words, "n_prompt, dtype", len(known))


def _pool(row: Row, n_gen: int) -> float:
    """Bytes of the pool by its formula, up to a factor of the model."""
    first, last = row["n_prompt"] + 1, row["n_prompt"] + n_gen - 1
    return float(BYTES_PER_VALUE[row["dtype"]] * (first + last) * (last - first + 1) / 2)


def _bracket(curve: Curve, size: Callable[[Row, int], float]) -> tuple[float, float] | None:
    """Sizes between which the onset lies; without a regime, from the longest length on."""
    if curve.regime is not None:
        low = curve.regime.onset_low
        return 0.0 if low is None else size(curve.row, low), size(curve.row, curve.regime.onset_high)
    if curve.row["verdict"] == "smooth":
        return size(curve.row, max(curve.points)), math.inf
    return None
