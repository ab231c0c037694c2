"""The worker: the only process that imports torch. It measures one cell, or says which devices compute, or
does nothing but hold memory.

Run as a file, by the Python whose torch is to be measured, which needs torch, transformers and psutil and
nothing else of Speedbump's. Its one argument is the descriptor of the pipe on which it reports, one JSON
object a line: its standard output belongs to libraries. Its task is the first line of standard input; when
that closes, the supervisor is gone, and the worker ends with all it has started.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

sys.path[0] = str(Path(__file__).resolve().parents[2])

from speedbump.measure.ballast import hold  # noqa: E402  (the path must come first)
from speedbump.measure.failure import describe, status_of  # noqa: E402  (the path must come first)
from speedbump.measure.plan import is_decided  # noqa: E402

if TYPE_CHECKING:
    from speedbump.measure.session import Session


class Report(Protocol):
    """Sends one event to the supervisor."""

    def __call__(self, event: str, **content: Any) -> None: ...


def main() -> None:
    reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)

    def report(event: str, **content: Any) -> None:
        reports.write(json.dumps({"event": event, **content}) + "\n")

    task = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    try:
        if task["kind"] == "probe":
            probe(report, task["devices"])
        elif task["kind"] == "ballast":
            hold(task["bytes"], lambda why: report_held(report, why))
        else:
            measure(task, report)
    except BaseException as error:
        # First into the log: the supervisor ends this process as soon as it has the report.
        traceback.print_exc()
        report("failed", status=status_of(error), message=describe(error))
        os._exit(1)
    # Interpreter and driver take their time to unwind, and what they free is freed anyway.
    os._exit(0)


def report_held(report: Report, why_not_locked: str | None) -> None:
    """Of a ballast."""
    report("locked", locked=why_not_locked is None, why=why_not_locked)
    report("done")


def measure(task: dict[str, Any], report: Report) -> None:
    """Answer the task's requests in order, and report each before and after.

    One that ``stays`` keeps all its memory after them, until it is ended.
    """
    from speedbump.measure.stack import describe_stack

    report("stack", **describe_stack(task["cell"]["device"]))
    session = open_session(task)
    try:
        report("ready", attention_ran=session.attention_ran)
        report("sentinels", when="before", **session.time_sentinels())
        if task["patience"]["seconds"]:
            _wait_until_quiet(task["patience"], session, report)
        _answer_all(task, session, report)
        report("sentinels", when="after", **session.time_sentinels())
        if task["stays"]:
            report("done")
            threading.Event().wait()
    finally:
        session.close()
    report("done")


def open_session(task: dict[str, Any]) -> "Session":
    """The model, here or behind LitServe."""
    if task["cell"]["harness"] == "litserve":
        from speedbump.measure.served import ServedSession

        return ServedSession(task["cell"], task["model"])
    from speedbump.measure.session import LocalSession

    return LocalSession(task["cell"], task["model"], task["capture"])


def _wait_until_quiet(patience: dict[str, Any], session: "Session", report: Report) -> None:
    """Repeat the sentinels until they are near their best, or the patience is over.

    patience: ``seconds``; ``best``, by sentinel the least seconds known; ``near``, times that.
    """
    started_s = time.monotonic()
    best, near = dict(patience["best"]), patience["near"]
    while True:
        times = session.time_sentinels()
        waited_s = time.monotonic() - started_s
        best = {name: min(time_s, best.get(name, time_s)) for name, time_s in times.items()}
        slowed = max(time_s / best[name] for name, time_s in times.items())
        report("waiting", waited_s=waited_s, slowed=slowed)
        report("sentinels", when="before", **times)
        if all(time_s <= near[name] * best[name] for name, time_s in times.items()) or waited_s >= patience["seconds"]:
            return
        time.sleep(min(patience["every_s"], max(patience["seconds"] - waited_s, 0)))


def _answer_all(task: dict[str, Any], session: "Session", report: Report) -> None:
    measured_s: list[float] = []
    for planned in task["requests"]:
        if planned["request"] > 0:
            _pass_gap(task["cell"]["between_requests"], session)
        report("request_started", request=planned["request"], started_at=datetime.now(UTC).isoformat())
        answer = session.answer(planned["n_gen"], planned["phase"])
        report("request", request=planned["request"], **answer)
        if planned["phase"] == "measured":
            measured_s.append(answer["e2e_s"])
        if task["probe"] and is_decided(task["probe"], measured_s):
            return


def _pass_gap(between_requests: str, session: "Session") -> None:
    if between_requests == "empty_cache":
        session.empty_cache()
    elif between_requests != "nothing":
        time.sleep(float(between_requests.removeprefix("rest_").removesuffix("s")))


def probe(report: Report, devices: list[str]) -> None:
    """Which of the devices compute, and why the others do not."""
    import torch

    from speedbump.measure.accelerator import fault_of, open_accelerator

    for device in devices:
        fault = fault_of(device)
        found: dict[str, Any] = {"computes": fault is None, "present": open_accelerator(device).is_available()}
        if fault:
            found["why"] = fault
        elif device == "cuda":
            properties = torch.cuda.get_device_properties(0)
            found |= {
                "name": properties.name,
                "memory_bytes": properties.total_memory,
                "count": torch.cuda.device_count(),
            }
        report("device", device=device, found=found)
    report("done")


def _end_with_supervisor() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
