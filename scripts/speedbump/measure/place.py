"""Whether a job runs where its file says that it does."""

import importlib.util


class PlaceError(ValueError):
    """Another machine or stack than the one named; one line."""


def check_place(machine: str, stack: str, python: str) -> None:
    """Raises PlaceError: a row measured elsewhere would be kept for good."""
    if importlib.util.find_spec("speedbump.grid.machine") is None:
        return
    from speedbump.grid.machine import find_machine
    from speedbump.grid.stack import find_stack

    for what, named, found in (("machine", machine, find_machine()), ("stack", stack, find_stack(python))):
        if named != found:
            raise PlaceError(f"this {what} is {found}, and the cell belongs to {named}")
