"""Under which conditions the runs of each machine and stack were made."""

from collections.abc import Iterable, Mapping
from typing import Any

from speedbump.grid.cells import series_id
from speedbump.grid.environments import Made


def describe_environments(
    records: Iterable[Mapping[str, Any]], machine: str = "", made: Iterable[Made] = ()
) -> list[dict[str, Any]]:
    """One entry a machine and stack: what all its runs share, under ``varied`` the keys that changed, and under
    ``mixed`` the variables that changed within a series, whose cells are then not alike: values by name, None where
    unset.

    records: metadata of run files, each with ``cell``, ``machine``, ``stack`` and ``environment``.
    machine, made: environments that were made there for the study, whose packages are known.
    """
    packages = {(machine, one.stack): list(one.packages) for one in made if not one.failed}
    places: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    series: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for record in records:
        place = record["machine"], record["stack"]
        places.setdefault(place, []).append(record["environment"])
        of_series = series.setdefault(place, {}).setdefault(series_id(record["cell"], *place), [])
        of_series.append(record["environment"])
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
                "mixed": _mixed(series[machine, stack].values()),
            }
        )
    return entries


def _mixed(every_series: Iterable[list[Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """Variables with several values within one of the series. Runs whose worker never told any are left out."""
    mixed: dict[str, list[Any]] = {}
    for environments in every_series:
        told = [variables for one in environments if isinstance(variables := one.get("variables"), dict)]
        for name in sorted({name for variables in told for name in variables}):
            found = _distinct(variables.get(name) for variables in told)
            if len(found) > 1:
                mixed[name] = _distinct([*mixed.get(name, []), *found])
    return mixed


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Different values in a fixed order; they come from JSON, so lists and dicts occur."""
    return [value for _, value in sorted({repr(value): value for value in values}.items())]
