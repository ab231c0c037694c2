"""Environments of the stacks that a study lists: what each is made of, and what came of making it."""

import hashlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ConfigDict, ValidationError

from speedbump.grid.devices import Found, has_failed, may_recover
from speedbump.grid.machine import find_os
from speedbump.grid.stack import StackError, stack_slug
from speedbump.grid.study import Stack, Study, StudyError

ENVIRONMENTS = Path("results/environments")
"""Each has its record there, ``<name>.json``, its folder ``<name>``, and ``<name>.lock``, by which it is made again."""


@dataclass(frozen=True)
class Definition:
    """What an environment is made of; it is made again only when this changes.

    machine: where it is made.  python: whose packages fit it, such as ``cpython-311``.
    """

    machine: str
    python: str
    torch: str
    transformers: str
    index: str | None
    extra_index: tuple[str, ...]
    find_links: tuple[str, ...]
    packages: tuple[str, ...]

    @property
    def name(self) -> str:
        """Such as ``torch-2.8.0_transformers-4.57.6_3f9a1c2e``; safe as a folder's name."""
        digest = hashlib.sha256(self.as_json().encode()).hexdigest()[:8]
        return f"torch-{self.torch}_transformers-{self.transformers}_{digest}"

    @property
    def title(self) -> str:
        """For readers: ``torch 2.8.0, transformers 4.57.6``."""
        return f"torch {self.torch}, transformers {self.transformers}"

    @property
    def record(self) -> Path:
        return ENVIRONMENTS / f"{self.name}.json"

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def requirements(self) -> tuple[str, ...]:
        return (f"torch=={self.torch}", f"transformers=={self.transformers}", *self.packages)

    @property
    def stack_pattern(self) -> str:
        """Regular expression of the stacks it may turn out to be: torch adds its build."""
        build = "" if "+" in self.torch else r"(\+[a-z0-9.]+)?"
        system, torch, transformers = stack_slug(find_os(), self.torch, self.transformers).split("_")
        return f"{re.escape(f'{system}_{torch}')}{build}_{re.escape(transformers)}"

    def as_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


class Made(BaseModel):
    """What came of an environment. ``failed``: why it cannot be used, one line; the rest is then empty.

    stack: its slug.  python: its interpreter, relative to the project.  installer: such as ``uv 0.9.0``.
    packages: all that is installed in it, as ``name==version``.  devices: which compute, as measure.devices says.
    """

    model_config = ConfigDict(frozen=True)
    title: str
    failed: str | None = None
    stack: str = ""
    python: str = ""
    installer: str = ""
    packages: tuple[str, ...] = ()
    devices: Found = {}

    @property
    def computes(self) -> dict[str, bool]:
        return {device: bool(entry["computes"]) for device, entry in self.devices.items()}


def list_environments(study: Study, file: str, machine: str) -> list[Definition]:
    """An environment for each combination of versions that the study lists, none twice. Raises StudyError."""
    python = sys.implementation.cache_tag
    found: dict[str, Definition] = {}
    for number, stack in enumerate(study.stacks):
        _check_places(stack, f"{file}: stacks[{number}]")
        for torch, transformers in itertools.product(stack.torch, stack.transformers):
            lists = (tuple(stack.extra_index), tuple(stack.find_links), tuple(stack.packages))
            definition = Definition(machine, python, torch, transformers, stack.index, *lists)
            found.setdefault(definition.name, definition)
    return list(found.values())


_ADDRESS = re.compile(r"(https?|file)://\S+")


def _check_places(stack: Stack, where: str) -> None:
    """Whether an installer could find what the stack names. Raises StudyError."""
    index = [] if stack.index is None else [stack.index]
    for key, places in (("index", index), ("extra_index", stack.extra_index), ("find_links", stack.find_links)):
        for place in places:
            if not _ADDRESS.fullmatch(place) and not _exists(place, Path.is_dir):
                raise StudyError(
                    f"{where}.{key}: {place!r} is no folder here, and no address such as https://example.org"
                )
    for package in stack.packages:
        try:
            Requirement(package)
        except InvalidRequirement:
            if not _exists(package, Path.is_file):
                raise StudyError(
                    f"{where}.packages: {package!r} is no requirement, such as litserve>=0.2.16, and no file here"
                ) from None


def _exists(place: str, kind: Callable[[Path], bool]) -> bool:
    try:
        return bool(place) and kind(Path(place))
    except (OSError, ValueError):  # a name too long for a file's, or with a zero byte
        return False


def read_made(record: Path) -> Made | None:
    """The record of an environment; None where there is none yet, or none that can be read."""
    try:
        return Made.model_validate_json(record.read_text(encoding="utf-8"))
    except (OSError, ValidationError, ValueError):
        return None


def usable(
    definitions: list[Definition], read: Callable[[Path], Made | None] = read_made
) -> Iterator[tuple[Definition, Made]]:
    """Those that are made and did not fail, each stack once. ``read``: finds what came of one by its record."""
    stacks = set()
    for definition in definitions:
        made = read(definition.record)
        if made and not made.failed and made.stack not in stacks:
            stacks.add(made.stack)
            yield definition, made


def probe_again(
    definitions: list[Definition],
    probe: Callable[[str], Found],
    say: Callable[[str], None],
    keep: Callable[[Path, str], None],
) -> None:
    """Ask again for devices that are there but failed when their environment was made: that may have been a passing
    fault. ``keep`` is given a record only when the answer has changed, since reports are made from it.

    probe: by an interpreter.
    """
    for definition, made in usable(definitions):
        if not any(map(may_recover, made.devices.values())) or not Path(made.python).exists():
            continue
        say(f"{made.title}: looking for devices that compute")
        again = made.model_copy(update={"devices": probe(made.python)})
        if again.computes != made.computes:
            keep(definition.record, again.model_dump_json(indent=1) + "\n")
        for device, entry in again.devices.items():
            if has_failed(entry):
                why = entry.get("why") or "no reason given"
                say(f"{made.title}: {device} is there but does not compute: {why}")


def python_of(record: Path) -> str:
    """The interpreter of an environment. Raises StackError."""
    made = read_made(record)
    if made is None or made.failed:
        raise StackError(f"{record}: {made.failed if made else 'is no record of an environment'}")
    return made.python
