"""Whether an upgrade made anything worse, as a study's summary.json tells it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from speedbump.grid.stack import stack_order
from speedbump.report.words import interval, lengths, times

Row = dict[str, Any]


@dataclass(frozen=True)
class Gate:
    """findings: one line each.  doubts: what cannot be told, one line each.  compared: curves."""

    findings: list[str]
    doubts: list[str]
    compared: int


def judge_upgrade(summary: Row, slower: float, pair: tuple[str, str] | None = None) -> Gate:
    """A new slow regime, and every slow-down beyond ``slower``, that is shown (see tables.SERIES_CHANGES). What the
    newer stack lacks is a doubt: a curve of the older one, or, where no pair is named, an environment not made.

    pair: parts of the slugs of an older and a newer stack; None: on every machine the newest stack, and the one
    before it. Raises ValueError when a named stack is none, or several, of the study's.
    """
    changes = [change for change in summary["changes"] if change["between"] == "stacks"]
    lost = summary["lost"]
    doubts = []
    if pair is None:
        chosen = [change for change in changes if change["newest"]]
        lost = [curve for curve in lost if curve["newest"]]
        doubts += [f"no environment of {message}" for message in summary["no_environment"]]
    else:
        old, new = (_stack(changes, name) for name in pair)
        chosen = [change for change in changes if (change["old_stack"], change["new_stack"]) == (old, new)]
        lost = [curve for curve in lost if (curve["old_stack"], curve["new_stack"]) == (old, new)]
    findings = [f"{change['name']}: {text}" for change in chosen for text in _findings(change, slower)]
    doubts += [f"{change['name']}: {change['sentence']}" for change in chosen if change["verdict"] == "can't tell"]
    doubts += [f"{curve['name']}: not measured with {curve['new_stack']}" for curve in lost]
    return Gate(findings, doubts, len(chosen))


def lacks_stack(summary: Row, machine: str, stack: str) -> bool:
    """Whether the summary is of ``machine`` before it had the stack in use; one that lists its stacks has its own."""
    known = {*summary["stacks"], *(curve["stack"] for curve in summary["curves"] if curve["machine"] == machine)}
    return summary["machine"] == machine and not summary["listed"] and stack not in known


def _stack(changes: list[Row], name: str) -> str:
    stacks = sorted({change[side] for change in changes for side in ("old_stack", "new_stack")}, key=stack_order)
    found = [stack for stack in stacks if stack == name] or [stack for stack in stacks if name in stack]
    if len(found) != 1:
        known = ", ".join(stacks) or "none"
        raise ValueError(f"{name}: {'several' if found else 'none'} of the stacks compared, which are: {known}")
    return str(found[0])


def _findings(change: Row, slower: float) -> Iterator[str]:
    told: list[tuple[int, int]] = []
    for regime in change["regimes"]:
        span = (regime["new_first"], regime["new_last"])
        if regime["change"] == "new":
            told.append(span)
            seen = "" if regime["confirmed"] else ", seen in one process"
            yield f"new slow regime at {lengths(*span)} tokens, {times(regime['new_slowdown'])} the trend{seen}"
        elif regime["change"] == "slower" and regime["factor"] > slower:
            told.append(span)
            amount = f"{times(regime['factor'])} ({interval(regime['factor_low'], regime['factor_high'])})"
            yield f"the slow regime at {lengths(*span)} tokens is {amount} as slow as it was"
    if change["trend"] == "slower" and change["shift"] > slower:
        amount = f"{times(change['shift'])} ({interval(change['shift_low'], change['shift_high'])})"
        yield f"normal lengths take {amount} as long"
        told.append((0, max((budget["n_gen"] for budget in change["lengths"]), default=0)))
    at = [
        budget
        for budget in change["lengths"]
        if budget["change"] == "slower"
        and budget["ratio"] > slower
        and not any(first <= budget["n_gen"] <= last for first, last in told)
    ]
    if at:
        worst = max(at, key=lambda budget: float(budget["ratio"]))
        where = ", ".join(str(budget["n_gen"]) for budget in at)
        bound = f"{worst['bound']} " if worst["bound"] else ""
        yield f"slower at {where} tokens, {bound}{times(worst['ratio'])} at {worst['n_gen']}"
