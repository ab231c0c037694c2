"""Bundles: what goes in comes out, other machines join, and nothing hostile gets past the door."""

import hashlib
import io
import json
import math
import stat
import zipfile
from pathlib import Path

import polars as pl
import pytest

from speedbump.analyse import bundle as limits
from speedbump.analyse.bundle import MANIFEST, BundleError, unpack_bundle, write_bundle
from speedbump.analyse.cells import summarise_cells
from speedbump.analyse.guests import with_bundles
from speedbump.analyse.runs import read_runs
from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.report.privacy import scrub_frame, scrub_values
from speedbump.tables import MEMORY_SAMPLES, REQUESTS, read_metadata, read_table, write_table

MACHINE, STACK = "apple-m3-max-36gb", "macos-14.8_torch-2.8.0_transformers-4.57.6"
HOME, AWAY = "aaaaaaaa", "bbbbbbbb"


def unscrubbed(frame, record):
    return frame, record


def write_run(folder: Path, n_gen: int | None, machine: str = MACHINE, e2e_s: float = 2.0, **axes) -> Path:
    cell = {"model": "gpt2", "device": "mps", "n_gen": n_gen, "warmups": 0, "repeats": 2, "seed": 0, **axes}
    place = {"machine": machine, "stack": STACK}
    known = {**axes_of(cell), **place, "series": series_id(cell, machine, STACK), "cell": cell_id(cell)}
    told = {"warmups": 0, "repeats": 2, "seed": 0, "phase": "measured", "status": "ok", "lower_bound": False}
    rows = [dict.fromkeys(REQUESTS.schema) | known | told | {"request": i, "e2e_s": e2e_s} for i in range(2)]
    record = {"cell": cell, **place, "environment": {"chip": "M3"}, "wall_s": 5.0}
    file = folder / "runs" / machine / STACK / f"{cell_id(cell)}.parquet"
    write_table(pl.DataFrame(rows, schema=REQUESTS.schema), REQUESTS, file, {"speedbump": json.dumps(record)})
    if cell.get("instrument") == "memory":
        sample = dict.fromkeys(MEMORY_SAMPLES.schema) | {k: v for k, v in known.items() if k in MEMORY_SAMPLES.schema}
        samples = pl.DataFrame([{**sample, "request": 0, "rss_bytes": 7}], schema=MEMORY_SAMPLES.schema)
        write_table(samples, MEMORY_SAMPLES, file.with_suffix(".memory.parquet"), {"speedbump": json.dumps(record)})
    return file


@pytest.fixture
def runs(tmp_path):
    return [write_run(tmp_path / "away", n) for n in (128, 256)]


@pytest.fixture
def bundle(tmp_path, runs):
    out = tmp_path / "away.zip"
    assert write_bundle(runs, "paper", AWAY, unscrubbed, out) == []
    return out


@pytest.fixture
def own(tmp_path):
    return read_runs([write_run(tmp_path / "home", 128, e2e_s=1.0)])


def test_what_goes_in_comes_out(tmp_path, bundle, runs):
    manifest = unpack_bundle(bundle, tmp_path / "out")
    assert (manifest.study, manifest.origin) == ("paper", AWAY)
    assert read_runs(tmp_path / "out" / name for name in manifest.files).requests.equals(read_runs(runs).requests)


def test_memory_samples_travel_with_their_run(tmp_path, own):
    run = write_run(tmp_path / "away", 128, machine="m4-48gb", instrument="memory")
    write_bundle([run], "paper", AWAY, unscrubbed, tmp_path / "memory.zip")
    joined = with_bundles(own, MACHINE, HOME, [str(tmp_path / "memory.zip")])
    assert joined.faults.is_empty()
    assert joined.samples.select("machine", "rss_bytes").rows() == [("m4-48gb", 7)]


def test_a_bundle_says_nothing_that_its_scrub_takes_out(tmp_path, runs):
    def scrub(frame, record):
        return frame.with_columns(message=pl.lit(None, pl.String)), {**record, "environment": {}}

    write_bundle(runs, "paper", AWAY, scrub, tmp_path / "clean.zip")
    assert b"M3" not in (tmp_path / "clean.zip").read_bytes()


def test_a_name_that_is_part_of_the_machines_is_no_obstacle(own, tmp_path, runs):
    names = frozenset({"max", "gpt2"})

    def scrub(frame, record):
        return scrub_frame(frame, names), scrub_values(record, names)

    write_bundle(runs, "paper", AWAY, scrub, tmp_path / "clean.zip")
    joined = with_bundles(own, MACHINE, AWAY, [str(tmp_path / "clean.zip")])
    assert joined.faults.is_empty()
    assert set(joined.requests["machine"]) == {MACHINE}


def test_a_broken_run_is_left_out_and_named(tmp_path, runs):
    runs[0].write_bytes(b"PAR1")
    (line,) = write_bundle(runs, "paper", AWAY, unscrubbed, tmp_path / "half.zip")
    assert runs[0].name in line
    runs[1].write_bytes(b"PAR1")
    with pytest.raises(BundleError, match="no run can be read"):
        write_bundle(runs, "paper", AWAY, unscrubbed, tmp_path / "none.zip")
    assert not (tmp_path / "none.zip").exists()


def test_two_machines_of_one_slug_are_told_apart(own, bundle):
    joined = with_bundles(own, MACHINE, HOME, [str(bundle)])
    assert joined.faults.is_empty()
    away = f"{MACHINE}~{AWAY}"
    assert set(joined.requests["machine"]) == {MACHINE, away}
    cells = summarise_cells(joined.requests, [{**record, "wall_s": 5.0} for record in joined.records])
    medians = cells.select("machine", "n_gen", "e2e_median_s", "wall_s").sort("machine", "n_gen").rows()
    assert medians == [(MACHINE, 128, 1.0, 5.0), (away, 128, 2.0, 5.0), (away, 256, 2.0, 5.0)]
    assert cells["series"].n_unique() == 2
    assert {record["machine"] for record in joined.records} == {MACHINE, away}


def test_a_machines_own_bundle_adds_what_is_missing_and_nothing_twice(own, bundle, tmp_path):
    joined = with_bundles(own, MACHINE, AWAY, [str(bundle), str(bundle)])
    assert joined.requests.select("machine", "n_gen").unique().sort("n_gen").rows() == [(MACHINE, 128), (MACHINE, 256)]
    assert joined.requests.filter(n_gen=128)["e2e_s"].to_list() == [1.0, 1.0]
    assert len(joined.records) == 2


def test_a_bad_bundle_is_named_and_the_rest_goes_on(own, bundle, tmp_path):
    (tmp_path / "text.zip").write_text("hello")
    joined = with_bundles(own, MACHINE, HOME, [str(tmp_path / "none.zip"), str(tmp_path / "text.zip"), str(bundle)])
    assert joined.faults.select("file", "cell", "problem").rows() == [
        (str(tmp_path / name), None, "refused bundle") for name in ("none.zip", "text.zip")
    ]
    assert "no such file" in joined.faults["message"][0]
    assert joined.requests["machine"].n_unique() == 2


def forge(target: Path, members: dict[str, bytes], manifest: dict | bytes | None = None, **changes) -> Path:
    """A bundle of these files, its manifest right unless given."""
    entries = {name: {"bytes": len(c), "sha256": hashlib.sha256(c).hexdigest()} for name, c in members.items()}
    right = {"format": 1, "study": "paper", "origin": AWAY, "files": entries}
    told = manifest if isinstance(manifest, bytes) else json.dumps(manifest or {**right, **changes}).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.writestr(MANIFEST, told)
    return target


def pack(target: Path, runs: list[Path], change) -> Path:
    """A bundle as write_bundle would make it, but for what ``change`` does to every table and record, and unchecked."""
    members = {}
    for run in runs:
        for file, table in ((run, REQUESTS), (run.with_suffix(".memory.parquet"), MEMORY_SAMPLES)):
            if file.exists():
                frame, record = change(read_table(file, table), json.loads(read_metadata(file)["speedbump"]))
                text = record if isinstance(record, str) else json.dumps(record)
                write_table(frame, table, target.parent / "member", {"speedbump": text})
                members["/".join(("runs", *file.parts[-3:]))] = (target.parent / "member").read_bytes()
    return forge(target, members)


def refusal(own, bundle: Path) -> str:
    """What is said of a bundle that is refused, while the rest goes on."""
    joined = with_bundles(own, MACHINE, HOME, [str(bundle)])
    (fault,) = joined.faults.to_dicts()
    assert fault["problem"] == "refused bundle"
    assert "\n" not in fault["message"]
    assert joined.requests.equals(own.requests)
    assert joined.samples.is_empty()
    assert joined.records == own.records
    return fault["message"]


def run_of(bundle: Path) -> tuple[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        name = archive.namelist()[0]
        return name, archive.read(name)


def parquet_of(rows: int) -> bytes:
    content = io.BytesIO()
    pl.DataFrame({"e2e_s": pl.repeat(0.0, rows, eager=True)}).write_parquet(content)
    return content.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "../evil.parquet",
        "runs/../../../evil.parquet",
        "runs/m/s/../../../../evil.parquet",
        "/tmp/evil.parquet",
        "C:/evil.parquet",
        "runs/m/s/evil.py",
        "runs/m/s/__init__.py",
        "runs/m/s/c\\..\\evil.parquet",
        "runs/m/evil.parquet",
        "RUNS/m/s/evil.parquet",
        "runs/m/s/a\n.parquet",
    ],
)
def test_a_name_that_leaves_its_folder_is_refused_and_nothing_is_written(tmp_path, bundle, name):
    folder = tmp_path / "deep" / "out"
    folder.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    forged = forge(tmp_path / "evil.zip", {name: run_of(bundle)[1]})
    with pytest.raises(BundleError, match=r"evil\.zip: .*not the name of a run"):
        unpack_bundle(forged, folder)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, forged])


def test_a_link_is_refused(tmp_path, bundle):
    name, content = run_of(bundle)
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    forged = tmp_path / "link.zip"
    with zipfile.ZipFile(forged, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, content)
        archive.writestr(MANIFEST, json.dumps({"format": 1, "study": "p", "origin": AWAY, "files": {name: entry}}))
    with pytest.raises(BundleError, match="a link or device"):
        unpack_bundle(forged, tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, "format"),
        ({"origin": "../../x"}, "origin"),
        ({"files": {}}, "files"),
        ({"extra": 1}, "extra"),
        ({"manifest": b"[1, 2]"}, "manifest.json"),
        ({"manifest": b"\xff\xfe{"}, "manifest.json"),
        ({"manifest": b"[" * 100_000}, "manifest.json"),
    ],
)
def test_another_manifest_is_refused(tmp_path, bundle, changes, says):
    name, content = run_of(bundle)
    with pytest.raises(BundleError, match=says) as refusal:
        unpack_bundle(forge(tmp_path / "f.zip", {name: content}, **changes), tmp_path / "out")
    assert "\n" not in str(refusal.value)


def test_a_wrong_hash_a_stray_and_a_missing_file_are_refused(tmp_path, bundle):
    name, content = run_of(bundle)
    entry = {"bytes": len(content), "sha256": "0" * 64}
    with pytest.raises(BundleError, match="hash"):
        unpack_bundle(forge(tmp_path / "h.zip", {name: content}, files={name: entry}), tmp_path / "out")
    with pytest.raises(BundleError, match="not in the manifest"):
        unpack_bundle(forge(tmp_path / "s.zip", {name: content, "stray.py": b"x"}, files={name: entry}), tmp_path)
    with pytest.raises(BundleError, match="missing"):
        unpack_bundle(forge(tmp_path / "m.zip", {name: content}, files={name: entry, name + "x": entry}), tmp_path)


def test_without_a_manifest_it_is_not_a_bundle(tmp_path):
    with zipfile.ZipFile(tmp_path / "plain.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(BundleError, match="not a bundle"):
        unpack_bundle(tmp_path / "plain.zip", tmp_path / "out")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_bundle_is_refused(tmp_path, bundle, share):
    content = bundle.read_bytes()
    (tmp_path / "cut.zip").write_bytes(content[: int(len(content) * share)])
    with pytest.raises(BundleError, match=r"cut\.zip: cannot be read"):
        unpack_bundle(tmp_path / "cut.zip", tmp_path / "out")


def test_a_zip_bomb_is_read_no_further_than_it_may(tmp_path, bundle):
    name, content = run_of(bundle)
    forged = tmp_path / "bomb.zip"
    with zipfile.ZipFile(forged, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"\0" * (32 << 20))
        entry = {"bytes": 100, "sha256": hashlib.sha256(content).hexdigest()}
        archive.writestr(MANIFEST, json.dumps({"format": 1, "study": "p", "origin": AWAY, "files": {name: entry}}))
    assert forged.stat().st_size < 100_000
    with pytest.raises(BundleError, match="larger than 100 bytes"):
        unpack_bundle(forged, tmp_path / "out")


def test_a_bundle_that_says_it_is_huge_is_refused_before_it_is_read(tmp_path):
    members = {f"runs/m/s/{number}.parquet": b"x" for number in range(33)}
    files = {name: {"bytes": limits.LARGEST_FILE_BYTES, "sha256": "0" * 64} for name in members}
    with pytest.raises(BundleError, match="unpacks to more than 2048 MiB"):
        unpack_bundle(forge(tmp_path / "f.zip", members, files=files), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_huge_is_not_opened(tmp_path):
    with (tmp_path / "sparse.zip").open("wb") as file:
        file.truncate(limits.LARGEST_BUNDLE_BYTES + 1)
    with pytest.raises(BundleError, match="larger than 2048 MiB"):
        unpack_bundle(tmp_path / "sparse.zip", tmp_path / "out")


def test_a_small_parquet_file_with_too_many_rows_is_refused_unread(tmp_path, bundle):
    content = parquet_of(limits.MOST_ROWS + 1)
    assert len(content) < 100_000
    with pytest.raises(BundleError, match="too large for a run"):
        unpack_bundle(forge(tmp_path / "f.zip", {run_of(bundle)[0]: content}), tmp_path / "out")


def test_a_table_of_another_schema_is_refused(own, tmp_path, bundle):
    forged = forge(tmp_path / "f.zip", {run_of(bundle)[0]: parquet_of(1)})
    joined = with_bundles(own, MACHINE, HOME, [str(forged)])
    (fault,) = joined.faults.to_dicts()
    assert "not a requests table" in fault["message"]
    assert str(forged) in fault["message"]
    assert "/tmp" not in fault["message"].replace(str(forged), "")
    assert joined.requests.equals(own.requests)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"series": pl.lit("gpt2.mps.0123456789")}, "not those of its cell"),
        ({"machine": pl.lit("another-8gb")}, "not those of its cell"),
        ({"model": pl.lit("gpt2-large")}, "not those of its cell"),
        ({"seed": 7}, "not those of its cell"),
        ({"e2e_s": math.inf}, "e2e_s is no time that passes"),
        ({"ttft_s": math.nan}, "ttft_s is no time that passes"),
        ({"e2e_s": -1.0}, "e2e_s is no time that passes"),
        ({"e2e_s": 1e-320}, "e2e_s is no time that passes"),
        ({"e2e_s": 1e308}, "e2e_s is no time that passes"),
        ({"ttft_s": 0.0}, "ttft_s is no time that passes"),
        ({"gap_s": -1.0}, "gap_s is no time that passes"),
        ({"sentinel_before_s": 0.0}, "sentinel_before_s is no time that passes"),
        ({"host_sentinel_after_s": 0.0}, "host_sentinel_after_s is no time that passes"),
        ({"step_s": pl.lit([0.1, math.nan])}, "step_s is no time that passes"),
        ({"step_s": pl.lit([0.1, 0.0])}, "step_s is no time that passes"),
        ({"step_s": pl.lit([0.1, None])}, "step_s is no time that passes"),
        ({"rss_bytes": -1}, "rss_bytes is no size"),
        ({"started_at": pl.lit(2**62).cast(pl.Datetime("us", "UTC"))}, "started_at is no date"),
        ({"e2e_s": None}, "a finished request has no e2e_s"),
        ({"request": 0}, "a request is there twice"),
        ({"n_gen": 10**15}, "budgets that its cell has not"),
        ({"n_gen": 129}, "budgets that its cell has not"),
        ({"n_gen": None}, "budgets that its cell has not"),
        ({"status": pl.lit("splendid")}, "status is none of ok, stopped"),
        ({"status": None}, "status is none of"),
        ({"phase": pl.lit("dreamt")}, "phase is none of warmup, measured"),
        ({"phase": None}, "phase is none of"),
    ],
)
def test_rows_that_are_not_those_of_their_cell_are_refused(own, tmp_path, runs, change, says):
    def alter(frame, record):
        return frame.with_columns(**change), record

    assert says in refusal(own, pack(tmp_path / "f.zip", runs, alter))
    with pytest.raises(BundleError, match=f"not made: .*{says}"):
        write_bundle(runs, "paper", AWAY, alter, tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()


@pytest.mark.parametrize("budget", [10**15, 0, 2.5])
def test_a_budget_that_nobody_measures_is_refused(own, tmp_path, budget):
    run = write_run(tmp_path / "away", int(budget))
    record = json.loads(read_metadata(run)["speedbump"])
    record["cell"]["n_gen"] = budget
    named = run.with_name(f"{cell_id(record['cell'])}.parquet")
    frame = read_table(run, REQUESTS).with_columns(
        cell=pl.lit(named.stem), series=pl.lit(series_id(record["cell"], MACHINE, STACK))
    )
    write_table(frame, REQUESTS, named, {"speedbump": json.dumps(record)})
    assert "a budget is not from 1 to" in refusal(own, pack(tmp_path / "f.zip", [named], unscrubbed))


def test_budgets_of_a_persistent_process_are_those_of_its_sequence(own, tmp_path):
    run = write_run(tmp_path / "away", None, lifetime="persistent", sequence=[128, 256])

    def measure(*budgets):
        return lambda frame, record: (frame.with_columns(n_gen=pl.Series(budgets, dtype=pl.Int64)), record)

    pack(tmp_path / "good.zip", [run], measure(128, 256))
    assert with_bundles(own, MACHINE, HOME, [str(tmp_path / "good.zip")]).faults.is_empty()
    assert "budgets that its cell has not" in refusal(own, pack(tmp_path / "f.zip", [run], measure(128, 192)))


def test_a_request_may_be_stopped_at_once(own, tmp_path, runs):
    stopped = {"status": pl.lit("stopped"), "lower_bound": True, "e2e_s": 0.0}
    pack(tmp_path / "s.zip", runs, lambda frame, record: (frame.with_columns(**stopped), record))
    assert with_bundles(own, MACHINE, HOME, [str(tmp_path / "s.zip")]).faults.is_empty()


def test_samples_that_are_not_those_of_their_run_are_refused(own, tmp_path):
    run = write_run(tmp_path / "away", 128, instrument="memory")

    def forge_samples(**change):
        return lambda frame, record: (frame.with_columns(**change) if "offset_s" in frame.columns else frame, record)

    alien = pl.lit(own.requests["series"][0])
    assert "not those of its cell" in refusal(own, pack(tmp_path / "f.zip", [run], forge_samples(series=alien)))
    assert "budgets" in refusal(own, pack(tmp_path / "f.zip", [run], forge_samples(n_gen=129)))
    assert "no time that passes" in refusal(own, pack(tmp_path / "f.zip", [run], forge_samples(offset_s=math.nan)))


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "change",
    [
        {"environment": "x"},
        {"wall_s": "5"},
        {"wall_s": -1},
        {"wall_s": 10**400},
        {"cell": []},
        {"cell": {"model": 3}},
        {"machine": 7},
        {"environment": {"x": math.nan}},
        {"environment": {"memory_bytes": "lots"}},
        {"environment": {"uptime_s": 10**400}},
        {"environment": {"x": "\ud800"}},
    ],
)
def test_a_record_of_another_shape_is_refused(own, tmp_path, runs, change):
    refusal(own, pack(tmp_path / "f.zip", runs, lambda frame, record: (frame, {**record, **change})))


@pytest.mark.parametrize("value", ["1e999", "-Infinity", nested(30), nested(500), nested(100_000), "{"])
def test_a_record_that_cannot_be_written_again_is_refused(own, tmp_path, runs, value):
    def alter(frame, record):
        return frame, json.dumps({**record, "environment": {"x": 0}}).replace('{"x": 0}', f'{{"x": {value}}}')

    assert "its record cannot be used" in refusal(own, pack(tmp_path / "f.zip", runs, alter))


def test_own_runs_are_held_to_the_same(tmp_path, runs):
    frame, record = read_table(runs[0], REQUESTS), json.loads(read_metadata(runs[0])["speedbump"])
    write_table(frame.with_columns(e2e_s=-1.0), REQUESTS, runs[0], {"speedbump": json.dumps(record)})
    write_table(frame, REQUESTS, runs[1], {"speedbump": nested(100_000)})
    found = read_runs(runs)
    assert found.faults.select("file", "problem").rows() == [(str(run), "unreadable") for run in runs]
    assert found.requests.is_empty()


def test_bytes_flipped_in_a_parquet_file_never_end_the_analysis(own, tmp_path, bundle):
    name, content = run_of(bundle)
    for place in range(0, len(content), max(1, len(content) // 150)):
        broken = bytearray(content)
        broken[place] ^= 0xFF
        forged = forge(tmp_path / "f.zip", {name: bytes(broken)})
        joined = with_bundles(own, MACHINE, HOME, [str(forged)])
        assert joined.faults.height <= 1
