"""The stack: OS, torch and transformers versions as a slug, read without importing them."""

import importlib.machinery
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

from speedbump.grid.machine import find_os

_VERSION_FILES = {"torch": "version.py", "transformers": "__init__.py"}


class StackError(Exception):
    """The interpreter lacks a package that is measured; the message is one line."""


def find_stack(python: str = sys.executable) -> str:
    """Such as ``macos-14.8_torch-2.8.0_transformers-4.57.6``, of the environment that ``python`` runs.

    The build suffix of torch (``+cpu``) belongs to it; a patch release of the OS does not.
    Raises StackError when torch or transformers is not installed there.
    """
    return stack_slug(find_os(), *(find_version(package, python) for package in _VERSION_FILES))


def stack_slug(system: tuple[str, str], torch: str, transformers: str) -> str:
    """system: its name and major.minor version."""
    name, version = system
    text = f"{name}-{version}_torch-{torch}_transformers-{transformers}"
    return re.sub(r"[^a-z0-9.+_-]", "-", text.lower())


def stack_order(stack: str) -> list[tuple[str, Version, str]]:
    """Sorts stacks as versions, torch first, so that 2.14 comes after 2.8, and a nightly build before its release."""
    parts = sorted(stack.split("_"), key=lambda part: not part.startswith("torch"))
    return [_part_order(part) for part in parts]


def _part_order(part: str) -> tuple[str, Version, str]:
    """Name, version and text. What is no version counts as the number it begins with."""
    number = re.search(r"\d.*", part)
    name, text = (part[: number.start()], number[0]) if number else (part, "0")
    try:
        return name, Version(text), text
    except InvalidVersion:
        leading = re.match(r"\d+(\.\d+)*", text)
        return name, Version(leading[0] if leading else "0"), text


def find_version(package: str, python: str = sys.executable) -> str:
    """Version of torch or transformers from its own source file: metadata may lack the build suffix.

    Raises StackError.
    """
    spec = importlib.machinery.PathFinder.find_spec(package, _search_path(python))
    if spec is None or not spec.submodule_search_locations:
        raise StackError(f"{package} is not installed for {Path(python).name}: pip install -c constraints.txt -e .")
    file = Path(next(iter(spec.submodule_search_locations))) / _VERSION_FILES[package]
    match = re.search(r"""^__version__\s*(?::\s*\w+\s*)?=\s*['"]([^'"]+)['"]""", file.read_text(), re.MULTILINE)
    if match is None:
        raise StackError(f"{package}: its {file.name} names no version; install it again")
    return match[1]


def environment_of(python: str) -> dict[str, str]:
    """This process' environment for an interpreter: one that is another's has packages of its own, and PYTHONPATH,
    which would lay others over them, is not for it.
    """
    return {key: value for key, value in os.environ.items() if python == sys.executable or key != "PYTHONPATH"}


def not_passed_on() -> dict[str, str]:
    """Variables of this process that no worker gets: ratios of MPS's allocator, which its own error message advises to
    set, and people keep. They change when it purges, so only the axis ``watermark`` sets them.
    """
    return {name: value for name, value in sorted(os.environ.items()) if _WATERMARK_VARIABLE.fullmatch(name)}


def left_out_in_words() -> list[str]:
    """A line where there are such variables."""
    names = [f"{name}={value}" for name, value in not_passed_on().items()]
    return [f"{', '.join(names)} of your shell: not passed on; the axis watermark sets it"] if names else []


_WATERMARK_VARIABLE = re.compile(r"PYTORCH_MPS_\w*WATERMARK\w*")


def _search_path(python: str) -> list[str]:
    if python == sys.executable:
        return sys.path
    command = [python, "-c", "import json, sys; print(json.dumps(sys.path))"]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, env=environment_of(python)
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise StackError(f"{Path(python).name} does not run: {error}") from error
    return list(json.loads(found.stdout))
