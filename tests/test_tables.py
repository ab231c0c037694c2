"""Tables are checked when written and read, and described by a page that cannot drift."""

import importlib.util
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from speedbump.grid.axes import AXES
from speedbump.tables import FAULTS, REQUESTS, STATUSES, TABLES, TableError, read_metadata, read_table, write_table

ROOT = Path(__file__).parents[1]
FAULT = pl.DataFrame([{"file": "a", "cell": "b", "problem": "missing", "message": "gone"}])


def test_what_is_written_reads_back_also_for_another_reader(tmp_path):
    file = tmp_path / "deep" / "faults.parquet"
    write_table(FAULT, FAULTS, file, {"speedbump": "{}"})
    assert read_table(file, FAULTS).equals(FAULT)
    assert pq.read_table(file).to_pylist() == FAULT.to_dicts()
    assert pq.read_schema(file).names == list(FAULTS.schema)
    assert read_metadata(file)["speedbump"] == "{}"
    assert [entry.name for entry in file.parent.iterdir()] == ["faults.parquet"]


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (FAULT.drop("cell"), "lacks cell"),
        (FAULT.with_columns(extra=1), "has unknown extra"),
        (FAULT.rename({"cell": "sell"}), "lacks cell and has unknown sell"),
    ],
)
def test_another_table_is_refused_by_name_and_leaves_no_file(tmp_path, frame, says):
    with pytest.raises(TableError, match=says):
        write_table(frame, FAULTS, tmp_path / "faults.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_type_is_refused(tmp_path):
    wrong = pl.DataFrame({name: ["x"] for name in REQUESTS.schema})
    with pytest.raises(TableError, match=r"r\.parquet: not a requests table"):
        write_table(wrong, REQUESTS, tmp_path / "r.parquet")


def test_a_table_from_before_an_axis_holds_cells_at_its_default(tmp_path):
    late = [axis for axis in AXES if axis.late]
    assert "compile" in [axis.name for axis in late]
    blank = pl.DataFrame([dict.fromkeys(REQUESTS.schema)], schema=REQUESTS.schema)
    blank.drop(axis.name for axis in late).write_parquet(tmp_path / "old.parquet")
    assert read_table(tmp_path / "old.parquet", REQUESTS).select(axis.name for axis in late).to_dicts() == [
        {axis.name: axis.default for axis in late}
    ]
    blank.drop("process").write_parquet(tmp_path / "other.parquet")
    with pytest.raises(TableError, match="lacks process"):
        read_table(tmp_path / "other.parquet", REQUESTS)


def test_a_table_from_before_a_column_holds_null_there(tmp_path):
    late = [column.name for column in REQUESTS.columns if column.late]
    assert late == [
        *("host_sentinel_before_s", "host_sentinel_after_s"),
        *("sentinel_best_s", "host_sentinel_best_s"),
        "own_swap_bytes",
    ]
    blank = pl.DataFrame([dict.fromkeys(REQUESTS.schema)], schema=REQUESTS.schema)
    blank.drop(late).write_parquet(tmp_path / "old.parquet")
    old = read_table(tmp_path / "old.parquet", REQUESTS)
    assert old.schema == REQUESTS.schema
    assert old.select(late).null_count().row(0) == (1,) * len(late)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"not parquet at all"])
def test_a_broken_file_is_one_line(tmp_path, content):
    file = tmp_path / "broken.parquet"
    file.write_bytes(content)
    for read in (lambda: read_table(file, FAULTS), lambda: read_metadata(file)):
        with pytest.raises(TableError) as refusal:
            read()
        assert "\n" not in str(refusal.value)
        assert str(file) in str(refusal.value)


def test_columns_are_named_once_and_explained():
    for table in TABLES:
        names = [column.name for column in table.columns]
        assert len(set(names)) == len(names)
        assert all(column.meaning for column in table.columns)
        for column in table.columns:
            if column.name.endswith("_s") and column.name != "tokens_per_s":
                assert column.unit == "s", column.name
            if column.name.endswith("_bytes"):
                assert column.unit == "bytes", column.name
    assert "ok" in STATUSES


def test_the_page_that_describes_the_tables_is_up_to_date():
    spec = importlib.util.spec_from_file_location("document_tables", ROOT / "scripts" / "document_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "tables.md").read_text() == module.page(), "run python scripts/document_tables.py"
