"""How far the run is, on standard error: one line that changes on a terminal, plain lines elsewhere."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from speedbump.grid.estimate import in_words
from speedbump.plan.worklist import existing

VARIABLE = "SPEEDBUMP_PROGRESS"
"""Names a JSON file: a list of {"file": path of a run, "estimate_s": seconds}, one for every cell of the study."""


@dataclass(frozen=True)
class Standing:
    """number: this cell's, from 1.  cells: all of the study's.  left_s: estimate of the rest, this cell included."""

    number: int
    cells: int
    left_s: float


def read_standing(environment: Mapping[str, str] = os.environ) -> Standing | None:
    """Where the study stands, or None when nobody says what belongs to it."""
    try:
        runs = json.loads(Path(environment[VARIABLE]).read_text())
        done = existing(run["file"] for run in runs)
        missing = [run for run in runs if run["file"] not in done]
        return Standing(len(runs) - len(missing) + 1, len(runs), sum(run["estimate_s"] for run in missing))
    except (KeyError, TypeError, AttributeError, OSError, ValueError):
        return None


class Progress:
    """One cell's progress. ``budgets``: tokens of each of its requests, in order."""

    def __init__(self, cell: Mapping[str, Any], budgets: Sequence[int], stream: TextIO = sys.stderr) -> None:
        self._standing = read_standing()
        self._what = describe_cell(cell)
        self._budgets = budgets
        self._stream = stream
        self._changes = stream.isatty()
        self._waits = False
        self._write(self._line())

    def show_request(self, request: int) -> None:
        """Request number ``request``, from 0, has begun. Nobody asks the worker within one: that would disturb."""
        if self._changes:
            so_far, total = sum(self._budgets[:request]), sum(self._budgets)
            self._write(f"{self._line()}, request {request + 1} of {len(self._budgets)}, {so_far} of {total} tokens")

    def show_wait(self, waited_s: float, slowed: float) -> None:
        """The cell waits for a quiet machine: said once where the output does not change."""
        text = f"{self._line()}: waiting for a quiet machine, the fixed workload takes {slowed:.1f} times its best"
        if self._changes:
            self._write(f"{text}, {in_words(waited_s)} so far")
        elif not self._waits:
            self._write(text)
        self._waits = True

    def say(self, text: str) -> None:
        """A line that stays."""
        self._stream.write(f"\r\x1b[2K{text}\n" if self._changes else f"{text}\n")
        self._stream.flush()

    def finish(self, outcome: str) -> None:
        """The cell is over."""
        self.say(f"{self._line(left=False)}: {outcome}")

    def _line(self, left: bool = True) -> str:
        if self._standing is None:
            return self._what
        ending = f", {in_words(self._standing.left_s)} left" if left else ""
        return f"cell {self._standing.number} of {self._standing.cells}: {self._what}{ending}"

    def _write(self, text: str) -> None:
        self._stream.write(f"\r\x1b[2K{text}" if self._changes else f"{text}\n")
        self._stream.flush()


def describe_cell(cell: Mapping[str, Any]) -> str:
    """A cell in a few words: model, device, budget."""
    budgets = f"{cell['n_gen']} tokens" if cell.get("n_gen") else f"{len(cell['sequence'])} budgets"
    return f"{cell['model']} on {cell['device']}, {budgets}"
