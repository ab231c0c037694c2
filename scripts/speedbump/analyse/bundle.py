"""A bundle: a machine's runs in one file to hand on, as a zip of Parquet files and a manifest of their hashes.

Whoever opens one trusts nobody: names are matched against one pattern, sizes are bounded before and while reading,
every byte is hashed, and what is in it is only ever read as Parquet or JSON.
"""

import hashlib
import json
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from speedbump.analyse.runs import BESIDE, Runs, file_beside, read_record, read_runs
from speedbump.tables import REQUESTS, read_table, write_table

MANIFEST = "manifest.json"
_NAME = re.compile(r"runs/[a-z0-9._~-]{1,120}/[a-z0-9._+-]{1,200}/[a-z0-9.-]{1,200}\.parquet")
_DIGEST = r"^[0-9a-f]{64}$"

MOST_FILES = 20_000
LARGEST_FILE_BYTES = 64 << 20
LARGEST_BUNDLE_BYTES = 2 << 30
LARGEST_DECODED_BYTES = 512 << 20
"""What a single Parquet file may come to in memory, by its own footer."""
MOST_ROWS = 2_000_000

Scrub = Callable[[pl.DataFrame, dict[str, Any]], tuple[pl.DataFrame, dict[str, Any]]]
"""Takes a table and its record, gives both back without what names a person."""


class BundleError(Exception):
    """A bundle is refused; one line that names it and says why."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    bytes: int = Field(ge=1, le=LARGEST_FILE_BYTES)
    sha256: str = Field(pattern=_DIGEST)


class Manifest(BaseModel):
    """What a bundle says of itself. ``origin`` tells two machines of one slug apart, and says nothing else."""

    model_config = ConfigDict(extra="forbid", strict=True)
    format: Literal[1]
    study: str = Field(max_length=100)
    origin: str = Field(pattern=r"^[0-9a-f]{8}$")
    files: dict[str, _Entry] = Field(min_length=1, max_length=MOST_FILES)


def write_bundle(runs: Iterable[Path], study: str, origin: str, scrub: Scrub, out: Path) -> list[str]:
    """Pack run files, scrubbed; returns a line for each that is left out because it cannot be read.

    Raises BundleError when none can be, or when nobody could use the bundle that comes of it.
    """
    files = list(runs)
    found = read_runs(files)
    bad = set(found.faults["file"])
    out.parent.mkdir(parents=True, exist_ok=True)
    entries: dict[str, _Entry] = {}
    with tempfile.TemporaryDirectory(dir=out.parent) as folder:
        half = Path(folder, "half.zip")
        with zipfile.ZipFile(half, "w") as archive:
            for run in files:
                if str(run) in bad:
                    continue
                for name, content in _scrubbed(run, scrub, Path(folder)):
                    entries[name] = _Entry(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
                    archive.writestr(name, content)
            if not entries:
                raise BundleError(f"{out}: not made: no run can be read")
            manifest = Manifest(format=1, study=study, origin=origin, files=entries)
            archive.writestr(MANIFEST, manifest.model_dump_json(indent=1))
        try:
            read_bundle(half)
        except BundleError as error:
            raise BundleError(f"{out}: not made: {str(error).removeprefix(f'{half}: ')}") from None
        half.replace(out)
    return found.faults["message"].to_list()


def _scrubbed(run: Path, scrub: Scrub, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the run's files in a bundle: its requests, and what its instrument has beside them."""
    for file, table in ((run, REQUESTS), *((file_beside(run, name), table) for name, table in BESIDE.items())):
        if not file.exists():
            continue
        frame, record = scrub(read_table(file, table), read_record(file))
        clean = folder / "clean.parquet"
        write_table(frame, table, clean, {"speedbump": json.dumps(record, sort_keys=True)})
        yield "/".join(("runs", *file.parts[-3:])), clean.read_bytes()


def read_bundle(bundle: Path) -> tuple[Runs, str]:
    """A bundle's runs and origin. Raises BundleError unless each of its runs can be used."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        manifest = unpack_bundle(bundle, folder)
        further = tuple(f".{instrument}.parquet" for instrument in BESIDE)
        files = [file for file in manifest.files if not file.endswith(further)]
        try:
            runs = read_runs(folder / file for file in files)
        except pl.exceptions.PanicException as error:
            raise BundleError(f"{bundle}: cannot be read as Parquet: {str(error).splitlines()[0]}") from None
        if not runs.faults.is_empty():
            message = str(runs.faults["message"][0]).replace(f"{folder}/", "")
            raise BundleError(f"{bundle}: {message}")
    return runs, manifest.origin


def unpack_bundle(bundle: Path, folder: Path) -> Manifest:
    """Check a bundle whole, and write its files below ``folder``. Raises BundleError."""
    try:
        if bundle.stat().st_size > LARGEST_BUNDLE_BYTES:
            raise BundleError(f"larger than {LARGEST_BUNDLE_BYTES >> 20} MiB")
        with zipfile.ZipFile(bundle) as archive:
            manifest = _read_manifest(archive)
            members = {info.filename: info for info in archive.infolist()}
            _check_members(archive.infolist(), manifest)
            for name, entry in manifest.files.items():
                content = _read_member(archive, members[name], entry.bytes)
                if hashlib.sha256(content).hexdigest() != entry.sha256:
                    raise BundleError(f"{name}: its hash is not the manifest's")
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                _check_decoded(target, name)
    except BundleError as error:
        raise BundleError(f"{bundle}: {error}") from None
    except FileNotFoundError:
        raise BundleError(f"{bundle}: no such file") from None
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise BundleError(f"{bundle}: cannot be read as a bundle: {_first_line(error)}") from None
    return manifest


def _read_manifest(archive: zipfile.ZipFile) -> Manifest:
    try:
        content = _read_member(archive, archive.getinfo(MANIFEST), LARGEST_FILE_BYTES)
    except KeyError:
        raise BundleError(f"not a bundle: it has no {MANIFEST}") from None
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise BundleError(f"{MANIFEST}: {where}: {first['msg']}") from None


def _check_members(members: list[zipfile.ZipInfo], manifest: Manifest) -> None:
    """Names, kinds and sizes, before any of them is read."""
    names = [info.filename for info in members]
    if len(set(names)) < len(names):
        raise BundleError("holds two files of one name")
    for name in sorted(set(names) ^ {MANIFEST, *manifest.files}):
        raise BundleError(f"{name[:200]!r}: {'not in the manifest' if name in names else 'missing'}")
    for name in manifest.files:
        if not _NAME.fullmatch(name) or ".." in name:
            raise BundleError(f"{name[:200]!r}: not the name of a run")
    for info in members:
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            raise BundleError(f"{info.filename}: a link or device, not a file")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BundleError(f"{info.filename}: compressed in an unusual way")
    if sum(entry.bytes for entry in manifest.files.values()) > LARGEST_BUNDLE_BYTES:
        raise BundleError(f"unpacks to more than {LARGEST_BUNDLE_BYTES >> 20} MiB")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most_bytes: int) -> bytes:
    """The file's content, reading no more than it may have whatever its header says."""
    with archive.open(info) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise BundleError(f"{info.filename}: larger than {most_bytes} bytes")
    return content


def _check_decoded(file: Path, name: str) -> None:
    """A small Parquet file may decode to a huge one: its footer says how many rows and bytes."""
    try:
        footer = pq.read_metadata(file)
    except OSError as error:
        raise BundleError(f"{name}: cannot be read as Parquet: {_first_line(error)}") from None
    decoded = sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
    if footer.num_rows > MOST_ROWS or decoded > LARGEST_DECODED_BYTES:
        raise BundleError(f"{name}: {footer.num_rows} rows, {decoded} bytes: too large for a run")


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
