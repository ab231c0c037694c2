"""Where and how it was measured, as pairs of words."""

from typing import Any

import polars as pl

from speedbump.grid.stack import stack_order
from speedbump.report.company import company
from speedbump.report.curves import axis_words, usual_values
from speedbump.report.study import Study
from speedbump.report.words import duration, listing, plural, shortened

TITLES = {
    "model": "Model",
    "chip": "Chip",
    "cores": "Processor cores",
    "gpu_cores": "GPU cores",
    "ram_bytes": "Memory",
    "memory_bytes": "Memory",
    "os": "System",
    "os_build": "System build",
    "python": "Python",
    "torch": "PyTorch",
    "transformers": "Transformers",
    "power_source": "Power",
    "gpu_wired_limit_mb": "GPU wired limit",
    "variables_not_passed_on": "Variables kept from torch",
    "ballast_locked": "Ballast locked in memory",
    "warmups": "Warm-ups",
}

Pairs = list[tuple[str, str]]


def facts(study: Study) -> Pairs:
    """The first screen's line: machine, software, protocol, runs, condition, date."""
    pairs: Pairs = []
    machines = sorted(set(study.series["machine"].to_list()))
    if machines:
        pairs.append(("Machine", shortened(list(dict.fromkeys(_machine(study, machine) for machine in machines)), 3)))
    torch = {str(e["environment"]["torch"]) for e in study.environments if e["environment"].get("torch")}
    versions = sorted(torch, key=stack_order)
    if versions:
        pairs.append(("PyTorch", listing(versions)))
    protocol = study.about.get("protocol") or {}
    if "repeats" in protocol:
        pairs.append(("Repeats", f"{protocol['repeats']} after {plural(protocol.get('warmups', 0), 'warm-up')}"))
    pairs.append(("Runs", runs(study)))
    starts = study.cells["started_at"].drop_nulls().sort()
    if starts.len():
        first, last = (f"{day.day} {day:%B %Y}" for day in (starts[0], starts[-1]))
        pairs.append(("Measured", first if first == last else f"{first} to {last}"))
    return pairs


def runs(study: Study) -> str:
    """``68 done, 6 failed, 8 to do``."""
    ok = study.cells.filter(pl.col("outcome") == "ok").height
    failed = study.cells.filter(~pl.col("outcome").is_in(["ok", "stopped"])).height
    stopped = study.cells.height - ok - failed
    parts = [f"{ok:,} finished"]
    parts += [f"{stopped:,} stopped at a limit"] if stopped else []
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"{study.progress.left:,} to do"] if study.progress.left else []
    return ", ".join(parts)


def environment_tables(study: Study) -> list[tuple[str, Pairs]]:
    """A heading and its pairs for each stack on each machine."""
    return [
        (
            f"{entry['machine']}, {entry['stack'].replace('_', ', ')}",
            _pairs(entry["environment"])
            + _warnings(entry)
            + company(study.cells.filter(machine=entry["machine"], stack=entry["stack"])),
        )
        for entry in study.environments
    ]


def protocol_words(study: Study) -> Pairs:
    """The study's protocol and usual conditions."""
    usual = usual_values(study.series.to_dicts())
    pairs = [
        ("Usual conditions", ", ".join(axis_words(axis, value) for axis, value in usual.items() if axis != "order"))
    ]
    protocol = study.about.get("protocol") or {}
    return pairs + [(_title(key), _value(key, value)) for key, value in protocol.items() if value is not None]


def _machine(study: Study, machine: str) -> str:
    known = [entry["environment"] for entry in study.environments if entry["machine"] == machine]
    gpu = next((one["gpu"] for one in known if one.get("gpu")), None)  # a stack without CUDA sees none
    for one in known:
        if one.get("chip"):
            memory = one.get("ram_bytes") or one.get("memory_bytes")
            words = f"{one['chip']}, {round(memory / 2**30)} GB" if memory else str(one["chip"])
            return f"{words} ({gpu})" if gpu else words
    return machine


def _warnings(entry: dict[str, Any]) -> Pairs:
    """What makes the runs of one curve unlike one another, or a ballast less than it says."""
    values = {
        name: " or ".join(sorted("unset" if value is None else str(value) for value in found))
        for name, found in (entry.get("mixed") or {}).items()
    }
    pairs = (
        [("Differs within a curve", listing(f"{name} ({found})" for name, found in values.items()))] if values else []
    )
    if False in (entry.get("varied") or {}).get("ballast_locked", []):
        pairs.append(("Ballast locked in memory", "not in every run"))
    return pairs


def _title(key: str) -> str:
    """A key as a heading, its unit left to the value."""
    return TITLES.get(key) or key.removesuffix("_s").removesuffix("_bytes").replace("_", " ").capitalize()


def _pairs(environment: dict[str, Any]) -> Pairs:
    known = [key for key in TITLES if environment.get(key) is not None]
    free = sorted(key for key, value in environment.items() if key not in TITLES and value not in (None, "", [], {}))
    return [(_title(key), _value(key, environment[key])) for key in (*known, *free)]


def _value(key: str, value: Any) -> str:
    if key == "gpu_wired_limit_mb":
        return f"{value} MB, set by the user" if value else "the system’s own"
    if key.endswith("_bytes"):
        return f"{value / 2**30:.3g} GiB"
    if key.endswith("_s") and isinstance(value, int | float):
        return duration(value / 3600) if value >= 60 else f"{value:g} s"
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in sorted(value.items()))
    if isinstance(value, list):
        return listing(str(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
