"""The processes on whose behalf a cell is measured: when one dies, nobody waits for the result."""

import psutil

from speedbump.measure.tree import runs


def find_parents() -> list[psutil.Process]:
    """This process's parent, and that one's too where the parent is only a ``sh -c`` between."""
    parents: list[psutil.Process] = []
    for process in psutil.Process().parents():
        parents.append(process)
        try:
            if "-c" not in process.cmdline()[1:2]:
                break
        except psutil.Error:
            break
    return parents


def are_alive(parents: list[psutil.Process]) -> bool:
    """Whether all of them still run; a number that another process got since does not count."""
    return all(runs(parent) for parent in parents)
