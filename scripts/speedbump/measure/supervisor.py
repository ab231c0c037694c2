"""Measure one cell: hold the device, start a worker, watch it, and write down what came of it."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.grid.cells import canonical, complete, takes_all
from speedbump.grid.models import Model
from speedbump.grid.protocol import PROTOCOL
from speedbump.grid.stack import not_passed_on
from speedbump.grid.study import Limits
from speedbump.grid.swap import Demand, own_swap_bytes
from speedbump.measure.best import SENTINELS, find_best
from speedbump.measure.companions import companions_of, not_asked_for, watermark_variables, why_no_room
from speedbump.measure.environment import (
    State,
    boot_id,
    describe_machine,
    describe_state,
    find_disturbances,
    git_commit,
    peak_rss_bytes,
    read_state,
    with_cpu_of,
)
from speedbump.measure.failure import gpu_fault
from speedbump.measure.guard import Watch
from speedbump.measure.left import why_left
from speedbump.measure.lock import Held, Slot, find_slots, hold_device
from speedbump.measure.need import Need
from speedbump.measure.parents import are_alive, find_parents
from speedbump.measure.place import check_versions
from speedbump.measure.plan import Planned, plan_requests
from speedbump.measure.power import read_power, stay_awake, wait_until_cool
from speedbump.measure.privacy import without_paths
from speedbump.measure.process import StartError, Worker, settle_memory, start_worker
from speedbump.measure.progress import Progress
from speedbump.measure.rows import Ending, Record, profile_table, request_table, sample_table
from speedbump.measure.system import Memory, read_system
from speedbump.tables import MEMORY_SAMPLES, PROFILES, REQUESTS, write_table

NO_PATIENCE: dict[str, Any] = {"seconds": 0}
NEAR, NEAR_HOST = 1.3, 1.7
"""A machine is quiet whose sentinels take at most so many times their best: within what they do on quiet machines."""
WAIT_S = 2.0
"""Between two looks at a busy machine, which the looks themselves would keep busy."""
REPORTED = ("device_s", "host_s")
"""What the worker calls the times of SENTINELS."""
POLL_S = 0.05 if sys.platform == "darwin" else 0.2
"""How often the supervisor looks at clocks and memory while the worker measures. macOS answers within microseconds; a
look at Linux' files took 0.6 ms of a core, which at 20 a second would be 1 % of it.
"""
LATE_S = 1.0
"""What Metal prints of a failed command may come so much later than the answer of the request that it was for."""
REASON_S = 0.1
"""Within which the lines follow that say why it failed."""


class RefusedError(Exception):
    """The cell was not measured, for a reason that is not the cell's; one line."""


@dataclass(frozen=True)
class Run:
    """A worker's record, the devices it held, the machine before and after it, and the last line it printed.

    before: of a worker that waited for a quiet machine, at the end of that.
    demand: of all processes of the cell.  waited_swap_bytes: by how much swap had grown when that wait was over.
    ballast_locked: whether its ballast is held in memory; None without one.
    """

    record: Record
    held: dict[str, Any]
    before: State
    after: State
    last_line: str
    demand: Demand
    waited_swap_bytes: int
    ballast_locked: bool | None


@dataclass
class Cell:
    """A cell that is being measured: what is watched over all its processes, and when it began (monotonic clock)."""

    parameters: dict[str, Any]
    limits: Limits
    guard: Watch
    need: Need
    is_wanted: Callable[[], bool]
    start_s: float = field(default_factory=time.monotonic)


def measure_cell(
    cell: dict[str, Any],
    model: Model,
    machine: str,
    stack: str,
    out: Path,
    limits: Limits,
    python: str = sys.executable,
    log: Path | None = None,
) -> str:
    """Measure the cell and write its file; returns its outcome in a few words.

    cell: its parameters, as ``grid.cells``.  machine, stack: slugs, which the caller has checked.
    python: whose torch is measured.  log: keeps what libraries print in the worker.
    Whatever befalls the cell becomes rows. Raises RefusedError or PlaceError when it was not measured for a
    reason that is not its own: on battery, another stack than the one named, the caller gone.
    """
    if read_power().source == "battery" and not limits.allow_battery:
        raise RefusedError('on battery power: plug the machine in, or give the limit {"allow_battery": true}')
    if why := not_asked_for(cell, limits):
        raise RefusedError(why)
    begun_s = time.monotonic()
    plan = plan_requests(cell)
    progress = Progress(cell, [planned.n_gen for planned in plan])
    run = run_worker(cell, model, plan, out, limits, python, log, progress)
    record = run.record
    check_versions(stack, record.stack)
    metadata = {
        "cell": json.loads(canonical(cell)),
        "protocol": PROTOCOL,
        "machine": machine,
        "stack": stack,
        "environment": {
            **describe_machine(),
            **describe_state(run.before),
            **record.stack,
            "variables_not_passed_on": {name: without_paths(value) for name, value in not_passed_on().items()},
            "ballast_locked": run.ballast_locked,
        },
        "environment_after": describe_state(run.after),
        "held": run.held,
        "speedbump_commit": git_commit(),
        "limits": limits.model_dump(),
        "demand": asdict(run.demand),
        "served": [answer.get("inside_e2e_s") for answer in record.answers.values()],
        "wall_s": max(time.monotonic() - begun_s - record.waited_s, 0.0),
        "waited_s": record.waited_s,
        "requests_started": len(record.started),
        "supervisor_peak_bytes": peak_rss_bytes(),
    }
    text = {"speedbump": json.dumps(metadata, sort_keys=True)}
    match complete(cell)["instrument"]:
        case "memory":
            samples = sample_table(cell, machine, stack, plan, record)
            write_table(samples, MEMORY_SAMPLES, out.with_suffix(".memory.parquet"), text)
        case "profile":
            operators = profile_table(cell, machine, stack, plan, record)
            write_table(operators, PROFILES, out.with_suffix(".profile.parquet"), text)
            name_capture(out)
    disturbed = []
    if record.started:
        disturbed = find_disturbances(run.before, run.after, record.sentinels, run.demand, run.waited_swap_bytes)
    if record.ending and len(record.answers) == len(plan) and not record.faulted:
        disturbed.append(f"after the last request: {record.ending.message}")
    rows = request_table(cell, machine, stack, plan, record, disturbed, own_swap_bytes(run.demand))
    write_table(rows, REQUESTS, out, text)
    outcome = f"{record.ending.status}: {record.ending.message}" if record.ending else _outcome(rows)
    progress.finish(outcome)
    if record.ending and run.last_line:
        progress.say(f"  the worker's last words: {run.last_line}")
    return outcome


def run_worker(
    cell: dict[str, Any],
    model: Model,
    plan: list[Planned],
    out: Path,
    limits: Limits,
    python: str,
    log: Path | None,
    progress: Progress,
) -> Run:
    """Hold the device, awake and cool, from before the worker starts until its memory is given back.

    out: the cell's file, beside which a capture goes, and whose disk the guard watches.
    """
    parents = find_parents()

    def is_wanted() -> bool:
        return are_alive(parents)

    with ExitStack() as held_open:
        held_open.enter_context(stay_awake())
        slots = find_slots()
        device = "cpu" if takes_all(cell) else cell["device"]
        held = held_open.enter_context(hold_device(device, slots, is_wanted, progress.say))
        wait_until_cool(progress.say)
        gpu = held.slots[0].visible if cell["device"] == "cuda" else ""
        before = quiet = read_state(gpu)
        variables = _variables(cell, model, gpu, limits)
        task = make_task(cell, model, plan, out, limits)
        record, last_line, ballast_locked = Record(), "", None
        if shortage := why_no_room(cell, limits):
            record.ending = Ending("out_of_memory", shortage)
        elif left := why_left(cell, out):
            record.ending = Ending("beyond_memory", left)
        memory = read_system()
        need = Need(unified=cell["device"] == "mps")
        watched = Cell(cell, limits, Watch(limits.guard, memory, out.parent, read_system), need, is_wanted)
        try:
            with ExitStack() as beside:
                companions: dict[str, Worker] = {}
                for name, its_task in companions_of(cell, task, plan):
                    if record.ending is None:
                        companion = beside.enter_context(start_worker(python, its_task, held.descriptors, variables))
                        ready = watch(companion, watched, lambda _: None, companions)
                        record.ending = _of_companion(name, ready.ending, companions)
                        companions[name] = companion
                        if name == "ballast" and ready.ending is None:
                            ballast_locked = ready.locked
                            if why := ready.not_locked:
                                progress.say(f"the ballast is not locked in memory and may be swapped out: {why}")
                if record.ending is None:
                    own = task | {"patience": patience_of(cell, limits, out.parent)}
                    with start_worker(python, own, held.descriptors, variables, log) as worker:
                        own_on_gpu: int | None = None

                        def note_wait(waited_s: float, slowed: float, pid: int = worker.process.pid) -> None:
                            nonlocal quiet, own_on_gpu
                            progress.show_wait(waited_s, slowed)
                            now = with_cpu_of(read_state(gpu), pid)
                            if own_on_gpu is None:
                                own_on_gpu = max(0, now.others_on_gpu - before.others_on_gpu)
                            quiet = replace(now, others_on_gpu=max(0, now.others_on_gpu - own_on_gpu))

                        record = watch(worker, watched, progress.show_request, companions, note_wait)
                        last_line = worker.last_line()
        except StartError as error:
            raise RefusedError(str(error)) from error
        after = read_state(gpu, quiet.others_on_gpu)
        demand = describe_demand(memory, settle_memory(), watched)
    waited_swap_bytes = max(0, quiet.swap_bytes - before.swap_bytes)
    hold = describe_hold(held, slots, before, after)
    return Run(record, hold, quiet, after, last_line, demand, waited_swap_bytes, ballast_locked)


def describe_demand(before: Memory, after: Memory, cell: Cell) -> Demand:
    """What the cell's processes asked of the memory, and by how much what others hold of it and of swap has grown.

    before, after: the machine's memory when none of them was there.
    """
    held_before, held_after = (
        memory.total_bytes - memory.available_bytes + memory.swap_bytes for memory in (before, after)
    )
    return Demand(
        total_bytes=before.total_bytes,
        available_before_bytes=before.available_bytes,
        needed_bytes=cell.need.peak_bytes,
        swapped_bytes=max(cell.guard.swap_peak_bytes, after.swap_bytes - before.swap_bytes),
        others_grew_bytes=held_after - held_before,
    )


def describe_hold(held: Held, slots: list[Slot], before: State, after: State) -> dict[str, Any]:
    """Which of the node's devices the cell held, and when, so that cells measured at one time know each other.

    Times are of the wall clock, in Unix seconds.
    """
    return {
        "slots": [slot.name for slot in held.slots],
        "indices": [slot.index for slot in held.slots],
        "devices": len(slots),
        "boot": boot_id(),
        "since_s": before.wall_s,
        "until_s": after.wall_s,
    }


def make_task(cell: dict[str, Any], model: Model, plan: list[Planned], out: Path, limits: Limits) -> dict[str, Any]:
    """What the worker is told. ``out``: the cell's file, beside which a Metal capture goes if the limits allow one."""
    return {
        "kind": "cell",
        "cell": complete(cell),
        "model": {
            "architecture": model.architecture,
            "pretrained": model.pretrained.model_dump() if model.pretrained else None,
        },
        "requests": [asdict(planned) for planned in plan],
        "probe": cell.get("probe"),
        "stays": False,
        "patience": NO_PATIENCE,
        "capture": str(out.resolve().with_suffix("")) if captures(cell, limits) else None,
    }


def patience_of(cell: dict[str, Any], limits: Limits, runs: Path) -> dict[str, Any]:
    """How long the worker may wait for a quiet machine, and what quiet is; see worker._wait_until_quiet.

    runs: the folder of this machine's and stack's, whose best sentinels are those of a quiet machine. Without any, the
    first that the worker sees are the best.
    """
    if not limits.patience_s:
        return NO_PATIENCE
    best = find_best(runs, PROTOCOL).get(cell["device"], {})
    return {
        "seconds": min(limits.patience_s, limits.cell_limit_s),
        "every_s": WAIT_S,
        "near": {"device_s": NEAR, "host_s": NEAR_HOST},
        "best": {reported: best[name] for reported, name in zip(REPORTED, SENTINELS, strict=True) if name in best},
    }


def name_capture(out: Path) -> None:
    """Give a Metal capture the cell's name, without PyTorch's number before it."""
    for found in out.parent.glob(f"[0-9][0-9][0-9][0-9]-{out.stem}.gputrace"):
        shutil.rmtree(out.with_suffix(".gputrace"), ignore_errors=True)
        found.replace(out.with_suffix(".gputrace"))


def captures(cell: dict[str, Any], limits: Limits) -> bool:
    """Whether the cell writes a Metal capture. The variable that permits one makes every operation of the process a
    command buffer of its own, in warm-ups too (MPSStream.mm), so it is never set unasked.
    """
    return limits.metal_capture and cell["device"] == "mps" and complete(cell)["instrument"] == "profile"


def watch(
    worker: Worker,
    cell: Cell,
    show_request: Callable[[int], None],
    companions: Mapping[str, Worker],
    show_wait: Callable[[float, float], None] = lambda waited_s, slowed: None,
) -> Record:
    """Listen to the worker until it is done or dead, and kill it where a limit is passed or its device failed.

    companions: processes without which the cell is not what it says, by what they are called.
    show_wait: told of the wait for a quiet machine, which no limit counts: its seconds, and how many times its best a
    sentinel took.
    """
    record = Record()
    limits = cell.limits
    stops_s = (cell.parameters.get("request_limit_s"), (cell.parameters.get("probe") or {}).get("stop_at_s"))
    request_limit_s = min((stop_s for stop_s in stops_s if stop_s is not None), default=float("inf"))
    request_start_s = time.monotonic()
    answered_s: dict[int, float] = {}
    in_flight = False
    cell.need.follow(worker.process.pid)
    while not worker.ended and not record.done and record.ending is None:
        for event in worker.read_events(POLL_S):
            record.take(event)
            if event["event"] == "ready":
                cell.need.follow(worker.process.pid)
            elif event["event"] == "request_started":
                in_flight, request_start_s = True, time.monotonic()
                show_request(event["request"])
            elif event["event"] == "request":
                in_flight = False
                answered_s[event["request"]] = time.monotonic()
                cell.guard.calm()
                cell.need.take(event)
            elif event["event"] == "waiting":
                cell.guard.calm()
                show_wait(event["waited_s"], event["slowed"])
        now_s = time.monotonic()
        elapsed_s = now_s - request_start_s if in_flight else None
        cell.need.look()
        if not cell.is_wanted():
            raise RefusedError("the process that asked for this cell is gone")
        if fault := find_fault(worker):
            for event in worker.read_events(0.0):  # a request may have begun just before the words were printed
                if event["event"] == "request_started" and not in_flight:
                    record.take(event)
                    in_flight = True
            spoil(record, fault, answered_s)
        elif elapsed_s is not None and elapsed_s > request_limit_s:
            record.ending = Ending("stopped", f"stopped by the request limit of {request_limit_s:g} s", elapsed_s)
        elif now_s - cell.start_s - record.waited_s > limits.cell_limit_s:
            record.ending = Ending("timed_out", f"the cell's limit of {limits.cell_limit_s:g} s passed")
        elif not record.done and (breach := cell.guard.breach()):
            record.ending = Ending("stopped", f"stopped by the memory guard: {breach}", elapsed_s)
        elif not record.done and (ended := [name for name, other in companions.items() if _has_ended(other)]):
            record.ending = Ending("killed", f"the {ended[0]} ended while the cell was measured")
    if worker.ended and not record.done and record.ending is None:
        record.ending = _death(worker)
    if record.ending:
        record.ending = replace(record.ending, message=without_paths(record.ending.message))
    return record


def find_fault(worker: Worker) -> Ending | None:
    """The device's failure, where the worker printed one since the last look."""
    printed = worker.new_output()
    if gpu_fault(printed) is None:
        return None
    time.sleep(REASON_S)
    fault = gpu_fault(printed + worker.new_output())
    return Ending(*fault) if fault else None


def spoil(record: Record, fault: Ending, answered_s: Mapping[int, float]) -> None:
    """End the cell with the device's failure, and with it the request before, where that ended only just now.

    answered_s: when each request was.  What a device gives after a fault is no measurement, so nothing follows.
    """
    record.ending = fault
    now_s = time.monotonic()
    record.faulted = {request for request, at_s in answered_s.items() if now_s - at_s <= LATE_S + REASON_S}


def _outcome(rows: pl.DataFrame) -> str:
    """Of a cell that came to its end: ok, or what is wrong with its first request that is not."""
    wrong = rows.filter(pl.col("status") != "ok").select("status", "message")
    return ": ".join(wrong.row(0)) if wrong.height else "ok"


def _has_ended(companion: Worker) -> bool:
    companion.read_events(0.0)
    return companion.ended


def _of_companion(name: str, ending: Ending | None, earlier: Mapping[str, Worker]) -> Ending | None:
    """The cell's ending where one of its companions was never ready; what is slow in that one is not the cell's.

    earlier: those that were ready before; the ending already names one of them that has died.
    """
    if ending is None or any(map(_has_ended, earlier.values())):
        return ending
    return Ending(ending.status, f"the {name}: {ending.message}")


def _death(worker: Worker) -> Ending:
    code = worker.process.wait()
    if code < 0:
        return Ending("killed", f"the worker was ended by {signal.Signals(-code).name}")
    return Ending("failed", f"the worker ended with code {code}: {worker.last_line()}")


def _variables(cell: dict[str, Any], model: Model, gpu: str, limits: Limits) -> dict[str, str]:
    variables = {}
    if gpu:
        variables["CUDA_VISIBLE_DEVICES"] = gpu
    from_hub = complete(cell)["weights"] == "pretrained" and model.pretrained and model.pretrained.hub
    if not from_hub:
        variables["HF_HUB_OFFLINE"] = "1"
    variables |= watermark_variables(complete(cell)["watermark"])
    if captures(cell, limits):
        variables["MTL_CAPTURE_ENABLED"] = "1"
    return variables


def end_on_signals() -> None:
    """SIGTERM and SIGHUP end the supervisor as Ctrl-C does: through its cleaning up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: sys.exit(128 + received))


def check_writable(out: Path) -> None:
    """Before an hour of measuring, not after. Raises OSError."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{out.parent}: not writable")
    shutil.disk_usage(out.parent)
