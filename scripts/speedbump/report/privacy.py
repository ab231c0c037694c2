"""Nothing of a page to publish may name its user, their host or their folders."""

import getpass
import platform
import re
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.grid.axes import AXES

_SIDES = ("old", "new", "old_machine", "old_stack", "new_machine", "new_stack")
IDENTITY = frozenset(
    (
        "machine",
        "stack",
        "series",
        "cell",
        "over",
        "under",
        "over_value",
        "under_value",
        *_SIDES,
        *(axis.name for axis in AXES),
    )
)
"""Columns and keys that say what was measured, and on what: tables are joined and runs are known by them, and they are
never changed. A user called max has no part in ``apple-m3-max-36gb``."""
MACHINE = re.compile(r"(?<![\w.-])([a-z0-9.-]+-\d+gb(?:_[a-z0-9.-]+)?(?:~[0-9a-f]{8})?)(?![\w-])")
"""A machine's slug as it stands in ordinary text."""
HOMES = re.compile(r"(?:/Users|/home|[A-Za-z]:\\Users)[/\\][^/\\\s:'\"<>|,;]+|/root(?=[/\s:'\"]|$)")
PRIVATE_KEYS = re.compile(r"host|user|login|home|path|serial|address", re.IGNORECASE)
COMMON_NAMES = frozenset(
    (
        *(
            "admin",
            "debian",
            "gpu",
            "home",
            "linux",
            "local",
            "localhost",
            "mac",
            "macbook",
            "machine",
            "model",
            "node",
        ),
        *("pc", "root", "runner", "server", "test", "torch", "ubuntu", "user", "users"),
    )
)
"""User and host names that say nothing of anybody, and that stand in ordinary text."""


def identities() -> frozenset[str]:
    """Words that would give away who built the page and where."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):
        user = ""
    host = platform.node()
    words = {user, host, host.partition(".")[0], str(Path.home())}
    return frozenset(word for word in words if len(word) > 2 and word.lower() not in COMMON_NAMES)


def scrub(text: str, names: frozenset[str]) -> str:
    """The text with home folders as ``~`` and names from ``identities`` as ``…``, slugs of machines apart."""
    parts = MACHINE.split(HOMES.sub("~", text))
    return "".join(part if n % 2 else _without(part, names) for n, part in enumerate(parts))


def _without(text: str, names: frozenset[str]) -> str:
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "~" if "/" in name or "\\" in name else "…", text)
    return text


def scrub_frame(frame: pl.DataFrame, names: frozenset[str]) -> pl.DataFrame:
    """Every text column but IDENTITY scrubbed; a column keeps its dtype and order."""
    columns = [name for name, dtype in frame.schema.items() if dtype == pl.String and name not in IDENTITY]
    changes = {}
    for name in columns:
        values = frame[name].drop_nulls().unique().to_list()
        changed = {value: clean for value in values if (clean := scrub(value, names)) != value}
        if changed:
            changes[name] = pl.col(name).replace(changed)
    return frame.with_columns(**changes) if changes else frame


def without_private(environment: dict[str, Any]) -> dict[str, Any]:
    """An environment without the keys that name a person or a place."""
    return {key: value for key, value in environment.items() if not PRIVATE_KEYS.search(key)}


def scrub_values(value: Any, names: frozenset[str]) -> Any:
    """JSON-like data with every text in it scrubbed, but for what stands under IDENTITY."""
    if isinstance(value, str):
        return scrub(value, names)
    if isinstance(value, dict):
        return {
            scrub(str(key), names): item if key in IDENTITY else scrub_values(item, names)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [scrub_values(item, names) for item in value]
    return value
