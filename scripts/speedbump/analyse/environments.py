"""Under which conditions the runs of each machine and stack were made."""

from collections.abc import Iterable, Mapping
from typing import Any

from speedbump.grid.environments import Made


def describe_environments(
    records: Iterable[Mapping[str, Any]], machine: str = "", made: Iterable[Made] = ()
) -> list[dict[str, Any]]:
    """One entry a machine and stack: what all its runs share, and under ``varied`` the keys that changed.

    records: metadata of run files, each with ``machine``, ``stack`` and ``environment``.
    machine, made: environments that were made there for the study, whose packages are known.
    """
    packages = {(machine, one.stack): list(one.packages) for one in made if not one.failed}
    places: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        places.setdefault((record["machine"], record["stack"]), []).append(record["environment"])
    entries = []
    for (machine, stack), environments in sorted(places.items()):
        keys = sorted({key for environment in environments for key in environment})
        values = {key: _distinct(environment.get(key) for environment in environments) for key in keys}
        entries.append(
            {
                "machine": machine,
                "stack": stack,
                "environment": {key: found[0] for key, found in values.items() if len(found) == 1}
                | ({"packages": packages[machine, stack]} if (machine, stack) in packages else {}),
                "varied": {key: found for key, found in values.items() if len(found) > 1},
            }
        )
    return entries


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Different values in a fixed order; they come from JSON, so lists and dicts occur."""
    return [value for _, value in sorted({repr(value): value for value in values}.items())]
