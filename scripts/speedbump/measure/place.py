"""Whether a job runs where its file says that it does."""

from speedbump.grid.machine import find_machine
from speedbump.grid.stack import find_stack


class PlaceError(ValueError):
    """Another machine or stack than the one named; one line."""


def check_place(machine: str, stack: str, python: str) -> None:
    """Raises PlaceError: a row measured elsewhere would be kept for good."""
    for what, named, found in (("machine", machine, find_machine()), ("stack", stack, find_stack(python))):
        if named != found:
            raise PlaceError(f"this {what} is {found}, and the cell belongs to {named}")


def check_versions(stack: str, ran: dict[str, str]) -> None:
    """Raises PlaceError when the worker's torch or transformers, as it imported them, are not the stack's."""
    for package in ("torch", "transformers"):
        version = ran.get(package)
        if version is not None and f"{package}-{version}".lower() not in stack.split("_"):
            raise PlaceError(f"the worker ran {package} {version}, and the cell belongs to {stack}")
