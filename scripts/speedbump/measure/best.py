"""The best that the fixed workloads ever took on a machine and stack: what a quiet machine takes, whatever the study.

Every run's times are noted in a small file beside the runs, so that of thousands only those are opened that came since.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.tables import TableError, read_metadata

NOTES = "sentinels.json"
"""In the folder of the runs. Nothing depends on it: where it is missing or broken it is made anew."""
SENTINELS = ("sentinel", "host_sentinel")
_RUN = re.compile(r".+\.[0-9a-f]{12}\.parquet")
"""What a run's file is called; that of an instrument beside it has a word between."""

_AT_ONCE = 1000
Stamp = list[int]
"""Time of the last change, in nanoseconds, and bytes."""
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
    fresh = _note_all({folder / name: stamp for name, stamp in stamps.items() if name not in notes})
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


def _stamps(folder: Path) -> Iterator[tuple[str, Stamp]]:
    """Every run's name and stamp, by one look into the folder."""
    if not folder.is_dir():
        return
    for entry in os.scandir(folder):
        if _RUN.fullmatch(entry.name):
            status = entry.stat()
            yield entry.name, [status.st_mtime_ns, status.st_size]


def _note_all(files: Mapping[Path, Stamp]) -> dict[str, Note]:
    """What runs say. Together, which takes a third of the time; where one cannot be read so, each by itself."""
    notes: dict[str, Note] = {}
    waiting = iter(files)
    while batch := list(islice(waiting, _AT_ONCE)):
        try:
            times = _times(batch)
        except (OSError, pl.exceptions.PolarsError):
            times = {str(file): found for file in batch for found in _times_of_one(file)}
        for file in batch:
            notes[file.name] = {"stamp": files[file], **_cell_of(file), **times.get(str(file), {})}
    return notes


def _times_of_one(file: Path) -> Iterator[dict[str, float]]:
    with suppress(OSError, pl.exceptions.PolarsError):
        yield from _times([file]).values()


def _times(files: Sequence[Path]) -> dict[str, dict[str, float]]:
    """By file: the least that each sentinel took that ran. Raises OSError or PolarsError where one cannot be read."""
    own = {name: [f"{name}_{when}_s" for when in ("before", "after")] for name in SENTINELS}
    rows = pl.scan_parquet(
        list(files),
        glob=False,
        include_file_paths="file",
        schema=dict.fromkeys((column for columns in own.values() for column in columns), pl.Float64),
        missing_columns="insert",
        extra_columns="ignore",
    )
    least = rows.group_by("file").agg(pl.min_horizontal(pl.col(of).min()).alias(name) for name, of in own.items())
    return {
        file: {name: time for name, time in zip(SENTINELS, times, strict=True) if time and time > 0}
        for file, *times in least.select("file", *SENTINELS).collect().iter_rows()
    }


def _cell_of(file: Path) -> Note:
    """The run's device and protocol; empty where its record does not say."""
    try:
        record = json.loads(read_metadata(file).get("speedbump", "null"))
        return {"device": str(record["cell"]["device"]), "protocol": record["protocol"]}
    except (TableError, ValueError, LookupError, TypeError):
        return {}
