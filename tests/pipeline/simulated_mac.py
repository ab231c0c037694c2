"""Stands in for the worker on a Mac of 36 GiB, and for what the supervisor reads of that machine's memory.

Within SLOW a request takes nine times as long, the worker holds 30 GiB, of which 27 were free, and swap grows by 1 GiB
a cell: pages of other programs, which stay out when the cell is over. With a prompt of nine tokens the GPU fails in the
second request of 496 tokens, and from then on answers with nonsense and at once; at 528 one request has other tokens.
"""

import json
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

SLOW = (512, 624)
GIB = 1 << 30
SYSTEM = '''
"""Stands in for the module of this name: counters of a Mac that a simulated worker writes down."""

import json
from dataclasses import dataclass
from pathlib import Path

NORMAL, WARNING, CRITICAL = 1, 2, 4
GIB = 1 << 30


@dataclass(frozen=True)
class Memory:
    total_bytes: int
    available_bytes: int
    swap_bytes: int
    pressure: int | None = None


def read_system() -> Memory:
    file = Path("counters.json")
    counters = json.loads(file.read_text()) if file.exists() else {}
    swap_bytes = counters.get("swap_bytes", 0)
    return Memory(36 * GIB, 27 * GIB + swap_bytes, swap_bytes, NORMAL)


def read_stalled() -> None:
    return None
'''
FAULT = """Error: command buffer exited with error status.
\tThe Metal Performance Shaders operations encoded on it may not have completed.
\tError:
\t(null)
\tImpacting Interactivity (0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)
"""


def install(project) -> None:
    """Put this worker, and the counters that it writes, into a project."""
    measure = project.root / "scripts/speedbump/measure"
    (measure / "worker.py").write_text(Path(__file__).read_text())
    (measure / "system.py").write_text(SYSTEM)
    with (measure / "environment.py").open("a") as file:
        file.write('\nOTHERS_SHARE = float("inf")  # whatever else runs beside the tests\n')


def main() -> None:
    reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)

    def report(event: str, **content: object) -> None:
        reports.write(json.dumps({"event": event, **content}) + "\n")

    task = json.loads(sys.stdin.readline())
    if task["kind"] == "probe":
        for device in ("cpu", "mps", "cuda"):
            computes = device != "mps"
            report("device", device=device, found={"computes": computes, "present": computes, "why": "simulated"})
    else:
        answer(task, report)
    report("done")


def answer(task: dict, report) -> None:
    report("ready", attention_ran="sdpa")
    report("sentinels", when="before", device_s=0.03, host_s=0.02)
    fails = task["cell"]["n_prompt"] == 9
    faulty, end_s = False, 0.0
    for planned in task["requests"]:
        n_gen, request = planned["n_gen"], planned["request"]
        slow = SLOW[0] <= n_gen <= SLOW[1] and not fails
        now = datetime.now(UTC).isoformat()
        report("request_started", request=request, started_at=now)
        if request == 0 and slow:
            swap()
        if fails and n_gen == 496 and request == 1:
            time.sleep(1.5)
            print(FAULT, end="", file=sys.stderr, flush=True)
            faulty = True
        wrong = faulty or (fails and n_gen == 528 and request == 3)
        e2e_s = (0.001 if faulty else 0.02 + 0.01 * (9 if slow else 1) * n_gen) * (1 + 0.01 * (request % 2))
        times = {"start_s": end_s + 0.001, "end_s": end_s + 0.001 + e2e_s, "ttft_s": e2e_s / 50, "e2e_s": e2e_s}
        end_s = times["end_s"]
        held = 30 * GIB if slow else 5 * GIB
        report(
            "request",
            request=request,
            started_at=now,
            samples=[],
            step_s=None,
            n_tokens=n_gen,
            tokens_hash="wrong" if wrong else "right",
            distinct_tokens=1,
            finite=True,
            torch_current_bytes=held,
            torch_driver_bytes=held,
            rss_bytes=GIB,
            footprint_bytes=held,
            system_used_bytes=9 * GIB + held,
            swap_used_bytes=0,
            **times,
        )
    report("sentinels", when="after", device_s=0.03, host_s=0.02)


def swap() -> None:
    file = Path("counters.json")
    before = json.loads(file.read_text())["swap_bytes"] if file.exists() else 0
    half = file.with_suffix(".half")
    half.write_text(json.dumps({"swap_bytes": before + GIB}))
    half.replace(file)
    time.sleep(0.5)


if __name__ == "__main__":
    main()
