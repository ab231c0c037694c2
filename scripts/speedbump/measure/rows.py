"""From what a worker reported to the rows of the requests table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.measure.plan import Planned
from speedbump.tables import MEMORY_SAMPLES, PROFILES, REQUESTS, Table, mark_inconsistent

Row = dict[str, Any]


@dataclass(frozen=True)
class Ending:
    """Why a cell ended before its time. elapsed_s: of the request in flight, where it is a lower bound."""

    status: str
    message: str
    elapsed_s: float | None = None


@dataclass
class Record:
    """All that one worker reported. sentinels: seconds by column of the requests table.

    waited_s: how long it waited for a quiet machine.
    faulted: requests that were answered, and that the ending spoils: the device had failed, and torch did not say so.
    locked: of a ballast, whether it is locked in memory; not_locked: why it is not.
    """

    stack: dict[str, Any] = field(default_factory=dict)
    attention_ran: str | None = None
    sentinels: dict[str, float] = field(default_factory=dict)
    started: dict[int, str] = field(default_factory=dict)
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    waited_s: float = 0.0
    done: bool = False
    ending: Ending | None = None
    faulted: set[int] = field(default_factory=set)
    locked: bool | None = None
    not_locked: str | None = None

    def take(self, event: dict[str, Any]) -> None:
        """Note one of the worker's events."""
        match event["event"]:
            case "stack":
                self.stack = {k: v for k, v in event.items() if k != "event"}
            case "ready":
                self.attention_ran = event["attention_ran"]
            case "sentinels":
                self.sentinels[f"sentinel_{event['when']}_s"] = event["device_s"]
                self.sentinels[f"host_sentinel_{event['when']}_s"] = event["host_s"]
            case "waiting":
                self.waited_s = event["waited_s"]
            case "request_started":
                self.started[event["request"]] = event["started_at"]
            case "request":
                self.answers[event["request"]] = event
            case "failed":
                self.ending = Ending(event["status"], event["message"])
            case "locked":
                self.locked, self.not_locked = event["locked"], event["why"]
            case "done":
                self.done = True


def request_table(
    cell: dict[str, Any],
    machine: str,
    stack: str,
    plan: Sequence[Planned],
    record: Record,
    disturbed: list[str],
    own_swap_bytes: int | None = None,
) -> pl.DataFrame:
    """One row a request, those that were not run included; a probe that had seen enough leaves its rest out."""
    shared = {
        "series": series_id(cell, machine, stack),
        "cell": cell_id(cell),
        "machine": machine,
        "stack": stack,
        **axes_of(cell),
        **{name: cell[name] for name in ("warmups", "repeats", "seed")},
        "attention_ran": record.attention_ran,
        **record.sentinels,
        "disturbed": "; ".join(disturbed) or None,
        "own_swap_bytes": own_swap_bytes,
    }
    blank = dict.fromkeys(REQUESTS.schema)
    rows = []
    for planned, part in zip(plan, _outcomes(plan, record), strict=True):
        if part is not None:
            rows.append(
                {**blank, **shared, "n_gen": planned.n_gen, "request": planned.request, "phase": planned.phase, **part}
            )
    return mark_inconsistent(pl.DataFrame(rows, schema=REQUESTS.schema))


def sample_table(
    cell: dict[str, Any], machine: str, stack: str, plan: Sequence[Planned], record: Record
) -> pl.DataFrame:
    """The memory samples of a memory run."""
    return _answer_rows(MEMORY_SAMPLES, "samples", cell, machine, stack, plan, record)


def profile_table(
    cell: dict[str, Any], machine: str, stack: str, plan: Sequence[Planned], record: Record
) -> pl.DataFrame:
    """The operators of a profiled request."""
    return _answer_rows(PROFILES, "operators", cell, machine, stack, plan, record)


def _answer_rows(
    table: Table,
    part: str,
    cell: dict[str, Any],
    machine: str,
    stack: str,
    plan: Sequence[Planned],
    record: Record,
) -> pl.DataFrame:
    """The rows that every answer has in one of its parts, each with its request."""
    shared = {
        "series": series_id(cell, machine, stack),
        "cell": cell_id(cell),
        "machine": machine,
        "stack": stack,
    }
    rows = [
        {**shared, "n_gen": planned.n_gen, "request": planned.request, **row}
        for planned in plan
        for row in record.answers.get(planned.request, {}).get(part, [])
    ]
    return pl.DataFrame(rows, schema=table.schema)


def _outcomes(plan: Sequence[Planned], record: Record) -> list[Row | None]:
    outcomes: list[Row | None] = []
    ending = record.ending
    for planned in plan:
        answer = record.answers.get(planned.request)
        started_at = record.started.get(planned.request)
        if answer is not None:
            previous = record.answers.get(planned.request - 1)
            outcomes.append(_answered(planned, answer, previous) | _spoilt(planned, record))
        elif ending is None or record.ending is None:
            outcomes.append(None)
        else:
            after = Ending("not_run", f"not started: an earlier request was {record.ending.status}")
            was_before = record.faulted and started_at is None
            outcomes.append(_ended(after if was_before else ending, started_at))
            ending = after
    return outcomes


def _spoilt(planned: Planned, record: Record) -> Row:
    """What the ending makes of a request that was answered."""
    if record.ending is None or planned.request not in record.faulted:
        return {}
    return {"status": record.ending.status, "message": record.ending.message}


def _answered(planned: Planned, answer: dict[str, Any], previous: dict[str, Any] | None) -> Row:
    decode_s = answer["e2e_s"] - answer["ttft_s"]
    row = {name: answer[name] for name in REQUESTS.schema if name in answer}
    fault = _fault(planned, answer)
    return {
        **row,
        "status": "invalid" if fault else "ok",
        "message": fault,
        "lower_bound": False,
        "decode_s": decode_s,
        "tpot_s": decode_s / (planned.n_gen - 1) if planned.n_gen > 1 else None,
        "gap_s": answer["start_s"] - previous["end_s"] if previous else None,
        "started_at": datetime.fromisoformat(answer["started_at"]),
    }


def _fault(planned: Planned, answer: dict[str, Any]) -> str | None:
    if answer["n_tokens"] != planned.n_gen:
        return f"{answer['n_tokens']} tokens instead of {planned.n_gen}"
    return None if answer["finite"] else "the last step's logits are not all finite"


def _ended(ending: Ending, started_at: str | None) -> Row:
    in_flight = started_at is not None
    return {
        "status": ending.status,
        "message": ending.message,
        "lower_bound": in_flight and ending.elapsed_s is not None,
        "e2e_s": ending.elapsed_s if in_flight else None,
        "started_at": datetime.fromisoformat(started_at) if started_at else None,
    }
