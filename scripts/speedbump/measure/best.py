"""The best that the fixed workloads ever took on a machine and stack: what a quiet machine takes, whatever the study.

Every run's times are noted in a small file beside the runs, so that of thousands only those are opened that came since.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.tables import TableError, read_metadata

NOTES = "sentinels.json"
"""In the folder of the runs. Nothing depends on it: where it is missing or broken it is made anew."""
SENTINELS = ("sentinel", "host_sentinel")
_RUN = re.compile(r".+\.[0-9a-f]{12}\.parquet")
"""What a run's file is called; that of an instrument beside it has a word between."""

Note = dict[str, Any]
"""Of a run: ``stamp``, which changes with the file; ``device``, ``protocol``, and the least that each sentinel took,
by its name. A file that could not be read has its stamp alone.
"""


def find_best(folder: Path, protocol: int) -> dict[str, dict[str, float]]:
    """By device: the least seconds that each sentinel took in any run of the folder under this protocol.

    folder: the runs of one machine and stack. Its notes are brought up to date where they can be written.
    """
    notes = _up_to_date(folder)
    best: dict[str, dict[str, float]] = {}
    for note in notes.values():
        if note.get("protocol") == protocol:
            of_device = best.setdefault(note["device"], {})
            for name in SENTINELS:
                if name in note:
                    of_device[name] = min(note[name], of_device.get(name, note[name]))
    return best


def _up_to_date(folder: Path) -> Mapping[str, Note]:
    """The notes of every run that is there now."""
    known = _read_notes(folder / NOTES)
    stamps = dict(_stamps(folder))
    notes = {name: known[name] for name, stamp in stamps.items() if known.get(name, {}).get("stamp") == stamp}
    fresh = {name: _note(folder / name, stamp) for name, stamp in stamps.items() if name not in notes}
    notes |= fresh
    if fresh or len(notes) != len(known):
        half = folder / f".{NOTES}.{os.getpid()}.tmp"
        with suppress(OSError):  # a folder that is not ours to write in: they are read anew the next time
            half.write_text(json.dumps(notes))
            half.replace(folder / NOTES)
    return notes


def _read_notes(file: Path) -> dict[str, Note]:
    try:
        notes = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    sound = isinstance(notes, dict) and all(map(_is_note, notes.values()))
    return notes if sound else {}


def _is_note(note: Any) -> bool:
    if not isinstance(note, dict) or not isinstance(note.get("stamp"), list):
        return False
    times = [note[name] for name in SENTINELS if name in note]
    return ("protocol" not in note or isinstance(note.get("device"), str)) and all(
        isinstance(time, float) and time > 0 for time in times
    )


def _stamps(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Every run's name and stamp, by one look into the folder."""
    if not folder.is_dir():
        return
    for entry in os.scandir(folder):
        if _RUN.fullmatch(entry.name):
            status = entry.stat()
            yield entry.name, [status.st_mtime_ns, status.st_size]


def _note(file: Path, stamp: list[int]) -> Note:
    """What one run says. Its first row is enough: a cell's sentinels run once."""
    columns = {f"{name}_{when}_s" for name in SENTINELS for when in ("before", "after")}
    try:
        record = json.loads(read_metadata(file).get("speedbump", "null"))
        there = [name for name in pl.read_parquet_schema(file) if name in columns]
        row = pl.read_parquet(file, columns=there, n_rows=1).to_dicts()[0]
        note = {"stamp": stamp, "device": str(record["cell"]["device"]), "protocol": record["protocol"]}
    except (TableError, OSError, pl.exceptions.PolarsError, ValueError, LookupError, TypeError):
        return {"stamp": stamp}
    for name in SENTINELS:
        times = [row[column] for column in row if column in (f"{name}_before_s", f"{name}_after_s")]
        if usable := [time for time in times if time and time > 0]:
            note[name] = min(usable)
    return note
