"""Which slow regime of the new side is which of the old side's, and what became of it."""

from dataclasses import dataclass

import numpy as np

from speedbump.analyse.changes.contrast import UNKNOWN, Contrast, Estimate, p_value
from speedbump.analyse.changes.extents import Extent, States
from speedbump.analyse.curve import Array, Flags

Words = np.typing.NDArray[np.object_]
Move = tuple[int, int] | None
"""Least and most tokens by which an edge moved, to larger budgets positive; None: it is not shown to have moved."""


@dataclass(frozen=True)
class Pairing:
    """An old regime, a new one, or both. inside: which common budgets lie within either."""

    old: Extent | None
    new: Extent | None
    inside: Flags
    factor: Estimate
    """Of the slow-down, new over old and apart from the shift, at the undisturbed budgets slow in both."""
    factor_p: float


@dataclass(frozen=True)
class RegimeChange:
    """What became of a regime. word: one of tables.REGIME_WORDS.  why: what cannot be told, else None."""

    pairing: Pairing
    word: str
    onset: Move = None
    recovery: Move = None
    why: str | None = None


def pair_regimes(old: States, new: States, between: Contrast) -> list[Pairing]:
    """Every regime of either side; two that share budgets are one. One that fell apart is taken as a whole."""
    left = list(new.extents)
    pairings = []
    for extent in old.extents:
        shared = [other for other in left if other.first <= extent.last and extent.first <= other.last]
        left = [other for other in left if other not in shared]
        pairings.append(_pair(extent, _whole(shared), old, new, between))
    pairings += [_pair(None, extent, old, new, between) for extent in left]
    return pairings


def _whole(parts: list[Extent]) -> Extent | None:
    if not parts:
        return None
    first, last = parts[0], parts[-1]
    return Extent(
        first.first,
        last.last,
        first.before,
        last.after,
        float(np.exp(np.mean(np.log([part.slowdown for part in parts])))),
        any(part.lower_bound for part in parts),
        all(part.confirmed for part in parts),
    )


def _pair(old: Extent | None, new: Extent | None, old_states: States, new_states: States, between: Contrast) -> Pairing:
    inside = np.zeros(len(between.budget), bool)
    for extent in (old, new):
        if extent is not None:
            inside |= (between.budget >= extent.first) & (between.budget <= extent.last)
    both = np.array(
        [
            slow and old_states.at(b) == new_states.at(b) == "slow"
            for slow, b in zip(inside & (between.bound == 0) & ~between.disturbed, between.budget, strict=True)
        ],
        bool,
    )
    if old is None or new is None or not both.any() or np.isnan(between.shift.value):
        return Pairing(old, new, inside, UNKNOWN, 1.0)
    size = int(both.sum())
    value = float(between.log_ratio[both].mean()) - between.shift.value
    variance = float(between.variance[both].sum()) / size**2 + between.shift.variance
    p = p_value(np.array([value]), np.array([variance]), between.df, np.zeros(1, np.int64))
    return Pairing(old, new, inside, Estimate(value, variance), float(p[0]))


def follow_regime(
    pairing: Pairing, new: States, between: Contrast, changed: list[str], factor_changed: bool
) -> RegimeChange:
    """What became of the regime. changed: every common budget's word, see tables.BUDGET_WORDS."""
    words = np.array(changed, object)
    inside = np.flatnonzero(pairing.inside)
    if pairing.new is None:
        assert pairing.old is not None
        states = [new.at(between.budget[k]) for k in inside]
        if not len(inside):
            return RegimeChange(pairing, "can't tell", why="nothing was measured inside it")
        mostly_normal = "slow" not in states and states.count("normal") > len(states) / 2
        if mostly_normal and (words[inside] == "faster").any():
            return RegimeChange(pairing, "gone")
        return RegimeChange(pairing, "can't tell", why=_doubt(words[inside], "whether it is gone"))
    if pairing.old is None:
        if not len(inside):
            return RegimeChange(pairing, "can't tell", why="the other stack was not measured there")
        if (words[inside] == "slower").any():
            return RegimeChange(pairing, "new")
        return RegimeChange(pairing, "can't tell", why=_doubt(words[inside], "whether it is new"))
    moves: list[Move] = []
    doubted = False
    for place in (_onset, _recovery):
        before = place(pairing.old)
        move = _move(before, place(pairing.new))
        shown = move is not None and _is_shown(move, before, between.budget, words)
        doubted |= move is not None and not shown
        moves.append(move if shown else None)
    if any(moves):
        return RegimeChange(pairing, "moved", moves[0], moves[1])
    if factor_changed:
        return RegimeChange(pairing, "slower" if pairing.factor.value > 0 else "faster")
    if doubted:
        return RegimeChange(pairing, "can't tell", why="its edges differ by less than the noise of single budgets")
    return RegimeChange(pairing, "same")


def _doubt(words: Words, what: str) -> str:
    if (words == "unclear").any():
        return f"{what}: a disturbance of single processes could explain it"
    return f"{what}: the ratios there are within their error"


def _onset(extent: Extent) -> tuple[float, float]:
    """Least and most that the first slow budget can be."""
    return (-np.inf if extent.before is None else extent.before + 1, extent.first)


def _recovery(extent: Extent) -> tuple[float, float]:
    """The same of the first normal budget after it."""
    return (extent.last + 1, np.inf if extent.after is None else extent.after)


def _move(old: tuple[float, float], new: tuple[float, float]) -> Move:
    """By how much an edge moved; None where the two brackets share a place, or an end is open."""
    low, high = new[0] - old[1], new[1] - old[0]
    if low <= 0 <= high:
        return None
    if low > 0:
        return (int(low), int(high) if np.isfinite(high) else int(low))
    return (int(low) if np.isfinite(low) else int(high), int(high))


def _is_shown(move: tuple[int, int], before: tuple[float, float], budget: Array, words: Words) -> bool:
    """Whether of the common budgets that the edge crossed one did change; true where there is none."""
    least = min(move, key=abs)
    low, high = (before[1], before[1] + least) if least > 0 else (before[0] + least, before[0])
    crossed = words[(budget >= low) & (budget < high)]
    return not len(crossed) or bool(np.isin(crossed, ("slower", "faster")).any())
