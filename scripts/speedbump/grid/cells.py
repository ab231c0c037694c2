"""A cell: one full configuration, its identity and its file name."""

import hashlib
import json
import re
from typing import Any

from speedbump.grid.axes import AXES, DEFAULTS, NOT_IN_SERIES
from speedbump.grid.protocol import PROTOCOL

Cell = dict[str, Any]
"""Axes that differ from their defaults, ``model``, ``device`` and ``n_gen`` (or ``sequence``, the
ordered budgets of a persistent process), and the protocol:

warmups, repeats: requests of each phase.  seed: int.
request_limit_s: seconds after which a request is stopped and kept as a lower bound; absent: none.
probe: a refinement probe that may end early: {"min_repeats", "max_repeats", "normal_below_s", "slow_above_s"},
and "stop_at_s" where a request may be stopped once it is surely slow; absent: none.
model_digest: 8 hex digits over the model's definition, so that editing a model makes new cells.
protocol: the measuring code's PROTOCOL.
"""


def canonical(cell: Cell) -> str:
    """The cell as JSON text that is equal exactly when the cell is. Defaults of axes are left out."""
    kept = {k: v for k, v in cell.items() if k in ("model", "device") or k not in DEFAULTS or v != DEFAULTS[k]}
    return json.dumps({**kept, "protocol": PROTOCOL}, sort_keys=True, separators=(",", ":"), allow_nan=False)


def complete(cell: Cell) -> Cell:
    """The cell with every axis present. A persistent sequence keeps ``n_gen`` None."""
    return {**DEFAULTS, **cell}


def cell_id(cell: Cell) -> str:
    """Readable slug and 12 hex digits, such as ``gpt2-medium.mps.512.3f9a1c2e07bd``; a file name in lower case."""
    whole = complete(cell)
    length = whole["n_gen"] if whole["n_gen"] is not None else f"x{len(whole['sequence'])}"
    return f"{slug(whole['model'])}.{whole['device']}.{length}.{_digest(canonical(cell), 12)}"


def series_id(cell: Cell, machine: str, stack: str) -> str:
    """Identity of the cell's series: what is left when budget, repeats, warm-ups, seed and process may differ.

    Limits and probes are how a cell was measured, not what, so they do not split a series.
    """
    left_out = NOT_IN_SERIES | {"request_limit_s", "probe"}
    kept = {k: v for k, v in json.loads(canonical(cell)).items() if k not in left_out}
    text = json.dumps([kept, machine, stack], sort_keys=True)
    return f"{slug(cell['model'])}.{cell['device']}.{_digest(text, 10)}"


def takes_all(cell: Cell) -> bool:
    """Whether nothing else can be measured meanwhile on the machine, however many devices it has."""
    return cell["device"] == "cpu" or bool(complete(cell)["ballast_gb"])


def axes_of(cell: Cell) -> Cell:
    """Every axis of the cell and nothing else."""
    whole = complete(cell)
    return {axis.name: whole[axis.name] for axis in AXES}


def slug(text: str) -> str:
    """Lower-case letters, digits, dots and hyphens: safe as a file name on any system."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:60] or "unnamed"


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
