"""A process and all that it has started: ended together, and waited for."""

import time

import psutil

EXIT_LIMIT_S = 10.0


def descendants(pid: int) -> list[psutil.Process]:
    """All that the process has started, and what that has started."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill(processes: list[psutil.Process]) -> None:
    """Kill them all, and return when none of them runs any more, or after ``EXIT_LIMIT_S``."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    until_s = time.monotonic() + EXIT_LIMIT_S
    while any(runs(process) for process in processes) and time.monotonic() < until_s:
        time.sleep(0.02)


def runs(process: psutil.Process) -> bool:
    """Whether it still runs; one that only waits to be reaped does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
