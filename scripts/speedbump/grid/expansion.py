"""From a study to cells: products of axes, checked before any job starts."""

import csv
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from speedbump.grid.axes import AXES, DEFAULTS
from speedbump.grid.cells import Cell
from speedbump.grid.estimate import cell_need
from speedbump.grid.models import Model
from speedbump.grid.room import Room, choose_fitting, leave_out
from speedbump.grid.study import ACCELERATOR, Experiment, Limits, Study, StudyError, named_axes, nearest

LARGEST_GRID = 100_000


@dataclass
class Grid:
    """The cells of every experiment on one machine, and what is worth saying about them.

    notes: those of the notices that the report repeats: what does not fit the memory.
    """

    cells: dict[str, list[Cell]] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def expand_study(
    study: Study,
    file: str,
    models: Mapping[str, Model],
    find_devices: Callable[[], Mapping[str, bool]],
    room: Room | None = None,
) -> Grid:
    """Every cell of the study that this machine can measure.

    find_devices: says for cpu, mps and cuda whether it really computes here; asked once the study is
    known to be right, since the answer can take seconds.  room: of the machine, where cells that do not fit its memory
    are to be left out.
    Raises StudyError for anything that could not run as written; an absent device is a notice,
    unless the study requires it.
    """
    if study.workload is not None:
        _check_columns(study.workload, f"{file}: workload", ["n_prompt", "n_gen"])
    options = {experiment.name: _options(experiment, _where(experiment, file)) for experiment in study.experiments}
    for experiment in study.experiments:
        for axes in itertools.chain(*options[experiment.name]):
            _check_compile(axes, _fewest_warmups(experiment, study), _where(experiment, file))
            _check(axes, _replay(axes, experiment, file), _where(experiment, file), models)
    computes = find_devices()
    accelerator = next((device for device in ("mps", "cuda") if computes.get(device)), None)
    for required in study.requires:
        if not (accelerator if required == ACCELERATOR else computes.get(required)):
            raise StudyError(f"{file}: requires: this machine has no {required} that computes")
    grid = Grid()
    for experiment in study.experiments:
        kept, absent = [], set()
        unfit: set[str] = set()
        if experiment.when is None or (experiment.when == ACCELERATOR) == bool(accelerator):
            combinations, note = _fitting(options[experiment.name], accelerator, computes, models, room)
            grid.notes += [f"{experiment.name}: {note}"] if note else []
            for axes in combinations:
                device = _device_of(axes, accelerator)
                if not computes.get(device):
                    absent.add(device)
                elif why := _unfit(axes, device, study.limits):
                    unfit.add(why)
                else:
                    kept.append({**axes, "device": device})
        if absent:
            devices = " and ".join(sorted(absent))
            grid.notices.append(f"{experiment.name}: no {devices} that computes here; its cells are left out")
        grid.notices += [f"{experiment.name}: {why}; its cells are left out" for why in sorted(unfit)]
        cells = _with_sequences(kept, experiment, file, study)
        finished = [_finish(cell, study, models) for cell in cells]
        if room:
            finished, notes = leave_out(finished, room, models)
            grid.notes += [f"{experiment.name}: {note}" for note in notes]
        grid.cells[experiment.name] = finished
    grid.notices += grid.notes
    if study.experiments and not any(grid.cells.values()):
        why = "; ".join(grid.notices) or "no experiment applies"
        raise StudyError(f"{file}: experiments: nothing to measure on this machine ({why})")
    return grid


def _where(experiment: Experiment, file: str) -> str:
    return f"{file}: experiments[{experiment.name}]"


def _options(experiment: Experiment, where: str) -> list[list[dict[str, Any]]]:
    """The experiment's combinations, and those of each block that may stand in for them where memory is short."""
    if experiment.fit and "replay" in named_axes(experiment).get("order", []):
        raise StudyError(f"{where}.fit: a replay goes through its own lengths; leave fit out")
    blocks = [experiment, *(experiment.model_copy(update=named_axes(block)) for block in experiment.fit)]
    return [_combinations(block, where) for block in blocks]


def _device_of(axes: Mapping[str, Any], accelerator: str | None) -> str:
    """The device that a combination is measured on; ``accelerator`` where the machine lacks the one it asks for."""
    named = axes["device"] or accelerator or "cpu"
    return (accelerator or ACCELERATOR) if named == ACCELERATOR else str(named)


def _fitting(
    options: list[list[dict[str, Any]]],
    accelerator: str | None,
    computes: Mapping[str, bool],
    models: Mapping[str, Model],
    room: Room | None,
) -> tuple[list[dict[str, Any]], str | None]:
    """The option to measure, and a sentence where it is not the first."""

    def need(axes: Mapping[str, Any]) -> float:
        device = _device_of(axes, accelerator)
        return cell_need({**axes, "device": device}, models[axes["model"]]) if computes.get(device) else 0.0

    return choose_fitting(options, room, need) if room and len(options) > 1 else (options[0], None)


def _combinations(experiment: Experiment, where: str) -> list[dict[str, Any]]:
    """The experiment's product and those it includes, without what it excludes; no axis twice alike."""
    own = named_axes(experiment)
    cells = list(_product(own, where))
    for block in experiment.include:
        cells += _product({**own, **named_axes(block)}, where)
    for number, block in enumerate(experiment.exclude):
        before = len(cells)
        cells = [cell for cell in cells if not _agrees(cell, block)]
        if len(cells) == before:
            raise StudyError(
                f"{where}.exclude[{number}]: no cell agrees with it; compare it with the experiment's axes"
            )
    if not cells:
        raise StudyError(f"{where}: the grid is empty: everything is excluded")
    unique = {tuple(cell.values()): cell for cell in cells}
    return list(unique.values())


def _product(axes: Mapping[str, list[Any]], where: str) -> Iterator[dict[str, Any]]:
    if "n_gen" not in axes and axes.get("order") != ["replay"]:
        raise StudyError(f"{where}.n_gen: is missing: name the budgets, such as 128-768+128")
    choices = [axes.get(axis.name, [DEFAULTS[axis.name]]) for axis in AXES]
    size = 1
    for values in choices:
        size *= len(values)
    if size > LARGEST_GRID:
        raise StudyError(f"{where}: {size:,} cells; at most {LARGEST_GRID:,} in one experiment")
    names = [axis.name for axis in AXES]
    return (dict(zip(names, values, strict=True)) for values in itertools.product(*choices))


def _agrees(cell: Mapping[str, Any], block: BaseModel) -> bool:
    return all(cell[name] in values for name, values in named_axes(block).items())


def _check(axes: Mapping[str, Any], replay: list[int], where: str, models: Mapping[str, Model]) -> None:
    """Refuse what cannot be measured whatever the machine. ``replay``: budgets in place of the cell's own."""
    model = models.get(axes["model"])
    if model is None:
        raise StudyError(f"{where}.model: {axes['model']!r} is not known{nearest(axes['model'], models)}")
    if axes["weights"] == "pretrained" and model.pretrained is None:
        raise StudyError(f"{where}.weights: {axes['model']} names no pretrained weights; add them to its file")
    if model.positions is not None:
        n_gen = max(replay or [axes["n_gen"]])
        length = axes["n_prompt"] + n_gen
        if length > model.positions:
            raise StudyError(
                f"{where}.n_gen: prompt {axes['n_prompt']} + budget {n_gen} = {length} tokens, but "
                f"{axes['model']} has {model.positions} positions: budgets up to {model.positions - axes['n_prompt']}"
            )
    if axes["lifetime"] == "fresh" and axes["order"] != DEFAULTS["order"]:
        raise StudyError(f"{where}.order: {axes['order']} needs lifetime: persistent; a fresh process has one budget")
    if axes["harness"] == "litserve" and axes["instrument"] == "profile":
        raise StudyError(f"{where}.instrument: a profile is of the process of the model; use harness: loop")
    if axes["harness"] == "generate" and axes["instrument"] in ("step_sync", "per_step"):
        raise StudyError(f"{where}.instrument: generate() cannot be observed at every step; use harness: loop")


def _unfit(axes: Mapping[str, Any], device: str, limits: Limits) -> str | None:
    """Why cells of a portable study are left out on this device, or without a request."""
    if axes["compile"] == "cuda_graph" and device != "cuda":
        return f"compile cuda_graph needs CUDA, not {device}"
    if axes["watermark"] != DEFAULTS["watermark"] and device != "mps":
        return f"watermark needs MPS, not {device}"
    if axes["watermark"] != DEFAULTS["watermark"] and not limits.allow_watermark:
        return "watermark only on request, limits: {allow_watermark: true}"
    if axes["ballast_gb"] and not limits.allow_ballast:
        return "ballast_gb only on request, limits: {allow_ballast: true}"
    return None


def _check_compile(axes: Mapping[str, Any], warmups: int, where: str) -> None:
    """Refuse a compiled step that could not be one, or whose making would be timed."""
    chosen = axes["compile"]
    if chosen == "none":
        return
    needed = {"kv_cache": "static", "harness": "loop", "lifetime": "fresh"}
    why = {
        "kv_cache": "its tensors must stay where they are",
        "harness": "generate() and LitServe step as they like",
        "lifetime": "it is made for one length, at the process's first request",
    }
    for axis, value in needed.items():
        if axes[axis] != value:
            raise StudyError(f"{where}.compile: {chosen} needs {axis}: {value}, not {axes[axis]}: {why[axis]}")
    if warmups < 1:
        raise StudyError(f"{where}.compile: {chosen} needs a warm-up, in which it is made")


def _fewest_warmups(experiment: Experiment, study: Study) -> int:
    probe = [experiment.refine.probe_warmups] if experiment.refine and experiment.refine.rounds else []
    return min(study.protocol.warmups, *probe) if probe else study.protocol.warmups


def _with_sequences(
    cells: list[dict[str, Any]], experiment: Experiment, file: str, study: Study
) -> Iterator[dict[str, Any]]:
    """Fresh cells as they are; those of one persistent process joined into one, its budgets in order."""
    together: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell in cells:
        if cell["lifetime"] == "fresh":
            yield cell
        else:
            key = tuple(value for name, value in cell.items() if name != "n_gen")
            together.setdefault(key, []).append(cell)
    for group in together.values():
        first = {**group[0], "n_gen": None}
        budgets = [cell["n_gen"] for cell in group]
        if first["order"] == "replay":
            budgets = _replay(first, experiment, file)
        elif first["order"] == "shuffled":
            random.Random(study.protocol.seed).shuffle(budgets)
        else:
            budgets.sort(reverse=first["order"] == "descending")
        yield {**first, "sequence": budgets}


def _replay(axes: Mapping[str, Any], experiment: Experiment, file: str) -> list[int]:
    """The budgets that a replay goes through, in the order of its file; empty for any other cell."""
    if axes["order"] != "replay":
        return []
    where = f"{_where(experiment, file)}.workload"
    if experiment.lengths is not None:
        return experiment.lengths
    if experiment.workload is None:
        raise StudyError(f"{where}: order replay needs a CSV with a column n_gen")
    return _read_budgets(experiment.workload, where)


def _check_columns(path: str, where: str, columns: Iterable[str]) -> None:
    """Raises StudyError when the file is no CSV with these columns."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as lines:
            header = next(csv.reader(lines), [])
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise StudyError(f"{where}: {path} cannot be read as CSV: {error}") from None
    missing = [column for column in columns if column not in (name.strip() for name in header)]
    if missing:
        raise StudyError(f"{where}: {path} has no column {' and '.join(missing)}")


def _read_budgets(path: str, where: str) -> list[int]:
    """The column n_gen of a CSV, in order. Raises StudyError."""
    _check_columns(path, where, ["n_gen"])
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as lines:
            budgets = [int(row["n_gen"]) for row in csv.DictReader(lines)]
    except (csv.Error, UnicodeDecodeError, KeyError, ValueError, TypeError) as error:
        raise StudyError(f"{where}: {path}: not a whole number in n_gen ({error})") from None
    if not budgets or min(budgets) < 1:
        raise StudyError(f"{where}: {path} needs lengths of at least one token")
    return budgets


def _finish(axes: Mapping[str, Any], study: Study, models: Mapping[str, Model]) -> Cell:
    protocol = study.protocol
    cell = {**axes, "warmups": protocol.warmups, "repeats": protocol.repeats, "seed": protocol.seed}
    if protocol.request_limit_s is not None:
        cell["request_limit_s"] = float(protocol.request_limit_s)
    return {**cell, "model_digest": models[axes["model"]].digest}
