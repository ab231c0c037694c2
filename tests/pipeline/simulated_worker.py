"""Stands in for the worker where a test needs devices that this machine lacks. Nothing is measured.

It says that a CPU and a CUDA device compute, and answers every request after PAUSE_S with made-up times that depend on
the cell alone, ten times as long within SLOW. The supervisor, its locks and its files are the real ones.
"""

import json
import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

PAUSE_S = float(os.environ.get("SIMULATED_PAUSE_S", "0.3"))
NEVER_FROM = int(os.environ.get("SIMULATED_NEVER_FROM", "1000000"))
"""Requests of so many tokens do not end before any limit."""
SLOW = (200, 263)
NVIDIA_SMI = """#!/bin/sh
case "$*" in *query-gpu=uuid*) echo GPU-aaa; echo GPU-bbb;; esac
"""
MEMORY = dict.fromkeys(["torch_current_bytes", "torch_driver_bytes", "footprint_bytes"])
MEMORY |= dict.fromkeys(["rss_bytes", "system_used_bytes", "swap_used_bytes"], 1 << 20)


def install_stand_ins(folder: Path, *projects) -> dict[str, str]:
    """Put this worker into projects, and a tool that lists two GPUs into ``folder``; the environment with them."""
    tool = folder / "tools" / "nvidia-smi"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(NVIDIA_SMI)
    tool.chmod(0o755)
    for project in projects:
        shutil.copy2(__file__, project.root / "scripts/speedbump/measure/worker.py")
    return {"PATH": f"{tool.parent}:{os.environ['PATH']}", "TMPDIR": str(folder)}


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
    end_s = 0.0
    for planned in task["requests"]:
        now = datetime.now(UTC).isoformat()
        report("request_started", request=planned["request"], started_at=now)
        time.sleep(60 if planned["n_gen"] >= NEVER_FROM else PAUSE_S)
        factor = 10 if SLOW[0] <= planned["n_gen"] <= SLOW[1] else 1
        e2e_s = 0.02 + 0.01 * factor * planned["n_gen"] * (1 + 0.01 * (planned["request"] % 2))
        times = {"start_s": end_s + 0.001, "end_s": end_s + 0.001 + e2e_s, "ttft_s": 0.02, "e2e_s": e2e_s}
        end_s = times["end_s"]
        tokens = {"n_tokens": planned["n_gen"], "tokens_hash": "0", "distinct_tokens": 1, "finite": True}
        report(
            "request",
            request=planned["request"],
            started_at=now,
            samples=[],
            step_s=None,
            **times,
            **tokens,
            **MEMORY,
        )
    report("sentinels", when="after", device_s=0.03, host_s=0.02)


if __name__ == "__main__":
    main()
