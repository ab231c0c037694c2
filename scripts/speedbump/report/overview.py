"""The first screen's table: one row a curve, with small pictures drawn as plain geometry."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speedbump.report.curves import Curve, Regime
from speedbump.report.verdict import VERDICT_WORDS, Advice, advise, edges, levels, surety
from speedbump.report.words import interval, lengths, seconds, sentence, times

WHISKER_WIDTH, SPARK_WIDTH, SPARK_HEIGHT = 170, 100, 34
ICONS = {
    "slow regimes": "slow",
    "excess": "above",
    "step": "step",
    "rate change": "above",
    "undetermined": "unsure",
    "smooth": "smooth",
}


@dataclass(frozen=True)
class Whisker:
    """A factor and its interval as x positions in a picture of WHISKER_WIDTH; ``open_end``: a lower bound."""

    at: float
    low: float | None
    high: float | None
    open_end: bool


@dataclass(frozen=True)
class Spark:
    """A curve as polylines, one for each stretch of one state, and dots with their class."""

    lines: tuple[str, ...]
    dots: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class Row:
    """What the table says of one curve."""

    curve: Curve
    icon: str
    word: str
    detail: str
    slow: str
    slow_note: str
    factor: str
    interval: str
    whisker: Whisker | None
    worst: str
    expected: str
    spark: Spark | None
    measured: str
    advice: Advice
    notes: str


def overview(curves: Sequence[Curve]) -> list[Row]:
    """A row for each curve, in the curves' order."""
    top = whisker_top(curves)
    return [_row(curve, top) for curve in curves]


def whisker_ticks(curves: Sequence[Curve]) -> list[tuple[float, str]]:
    """Positions and labels of the whiskers' common logarithmic axis."""
    top = whisker_top(curves)
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    return [(_position(tick, top), f"{tick}×") for tick in ticks if tick < top]


def whisker_top(curves: Sequence[Curve]) -> float:
    """The axis's end: room for the widest interval, and never so short that a small factor looks large."""
    ends = [regime.slowdown_high or regime.slowdown for curve in curves for regime in curve.accepted]
    return max(30.0, 1.2 * max(ends, default=1.0))


def _row(curve: Curve, top: float) -> Row:
    worst = curve.worst
    return Row(
        curve=curve,
        icon=ICONS.get(curve.verdict, "none"),
        word=VERDICT_WORDS[curve.verdict],
        detail=_detail(curve),
        slow=", ".join(lengths(regime.first_slow, regime.last_slow) for regime in curve.accepted),
        slow_note=_slow_note(curve),
        factor=f"{'≥ ' if worst.lower_bound else ''}{times(worst.slowdown)}" if worst else "",
        interval=interval(worst.slowdown_low, worst.slowdown_high) if worst and not worst.lower_bound else "",
        whisker=Whisker(
            _position(worst.slowdown, top),
            _position(worst.slowdown_low, top) if worst.slowdown_low else None,
            _position(worst.slowdown_high, top) if worst.slowdown_high else None,
            worst.lower_bound,
        )
        if worst
        else None,
        worst=f"{'≥ ' if worst.lower_bound else ''}{seconds(worst.worst_s)}" if worst else "",
        expected=seconds(worst.worst_expected_s) if worst and worst.worst_expected_s else "",
        spark=sparkline(curve),
        measured=_measured(curve),
        advice=advise(curve),
        notes=" ".join(_note(regime) for regime in curve.accepted),
    )


def _slow_note(curve: Curve) -> str:
    if any(regime.is_step for regime in curve.accepted):
        return "a step that stays"
    return "no return seen" if any(regime.open_right for regime in curve.accepted) else ""


def _note(regime: Regime) -> str:
    """Edges, levels, and the slow-down against a neighbour, which a step's own size says already."""
    text = sentence(edges(regime))
    if regime.slowdown_neighbour is not None and not regime.is_step:
        bound = "At least " if regime.lower_bound else ""
        text = f"{text} {bound}{times(regime.slowdown_neighbour)} its slower normal neighbour, its length allowed for."
    return f"{text} {levels(regime)}".strip()


def _measured(curve: Curve) -> str:
    if not curve.row["n_budgets"]:
        return ""
    span = lengths(curve.row["n_gen_min"], curve.row["n_gen_max"])
    return span if curve.row["n_budgets"] == 1 else f"{curve.row['n_budgets']} within {span}"


def _detail(curve: Curve) -> str:
    if curve.verdict == "slow regimes":
        confirmed = [regime.confirmed for regime in curve.accepted]
        return (
            "confirmed in another process"
            if all(confirmed)
            else "partly confirmed"
            if any(confirmed)
            else "seen in one process"
        )
    if curve.verdict == "excess":
        return "no proven return"
    if curve.verdict == "step" and curve.worst is not None:
        return f"from {curve.worst.begins} tokens on, {surety(curve.worst)}"
    if curve.verdict == "rate change" and curve.row["rate_ratio"]:
        return f"{times(curve.row['rate_ratio'])} a token from {curve.row['rate_from']} on"
    if curve.verdict == "smooth" and curve.row["noticed"] and not curve.row["reason"]:
        return f"{times(max(curve.row['noticed'], curve.row['noticed_ends'] or 0))} would be noticed"
    return str(curve.row["reason"] or "")


def _position(ratio: float, top: float) -> float:
    return round(min(1.0, max(0.0, math.log(ratio) / math.log(top))) * (WHISKER_WIDTH - 10) + 5, 1)


def sparkline(curve: Curve) -> Spark | None:
    """Latency on a logarithmic scale over the output length; None for less than two lengths."""
    points = [
        (n, latency, state, bound)
        for n, latency, state, bound in curve.budgets.select("n_gen", "latency_s", "state", "lower_bound").iter_rows()
        if latency and latency > 0
    ]
    if len(points) < 2:
        return None
    low_n, high_n = points[0][0], points[-1][0]
    logs = [math.log(latency) for _, latency, _, _ in points]
    low, high = min(logs), max(max(logs), min(logs) + math.log(10))
    placed = [
        (
            round(4 + (n - low_n) / (high_n - low_n) * (SPARK_WIDTH - 8), 1),
            round(SPARK_HEIGHT - 5 - (log - low) / (high - low) * (SPARK_HEIGHT - 10), 1),
            state,
        )
        for (n, _, state, _), log in zip(points, logs, strict=True)
    ]
    stretches: list[list[str]] = []
    before = None
    for x, y, state in placed:
        if state != before:
            stretches.append([])
        stretches[-1].append(f"{x:g},{y:g}")
        before = state
    few = len(placed) <= 16
    dots = tuple((x, y, state) for x, y, state in placed if few or state != "normal")
    return Spark(tuple(" ".join(part) for part in stretches if len(part) > 1), dots)
