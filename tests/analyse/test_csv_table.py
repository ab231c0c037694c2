"""The script on a CSV that somebody already has."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from speedbump.analyse.csv_table import CsvError, read_csv_curves
from speedbump.tables import BUDGETS, REGIMES, REQUESTS, SERIES, read_table, write_table

SCRIPT = Path(__file__).parents[2] / "scripts" / "segment_regimes.py"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def requests_csv(tmp_path, draw):
    repeats = draw({512: 10.0})
    rows = [f"m,{128 + 32 * k},{t}" for k, values in enumerate(repeats) for t in values]
    return write(tmp_path / "mine.csv", "\n".join(["series,n_gen,e2e_s", *rows]))


def test_prints_verdict_edges_and_interval(requests_csv):
    done = run(requests_csv)
    assert done.returncode == 0
    assert "m: slow regimes" in done.stdout
    assert "begins between 480 and 512" in done.stdout
    assert "ends between 512 and 544" in done.stdout
    assert "within one process" in done.stdout
    assert "not yet seen in another process" in done.stdout


def test_json_can_be_read_by_scripts(requests_csv):
    (series,) = json.loads(run(requests_csv, "--json").stdout)["series"]
    assert series["verdict"] == "slow regimes"
    (regime,) = series["regimes"]
    assert regime["slowdown_low"] < regime["slowdown"] < regime["slowdown_high"]


def test_a_published_table_of_means(tmp_path):
    table = write(
        tmp_path / "t.csv",
        "series,n_gen,e2e_s_mean,e2e_s_sd,n\na,384,5.12,0.06,5\na,512,84.54,12.18,5\na,640,8.67,0.05,5\na,768,9.7,,5\n",
    )
    curve = read_csv_curves(table)["a"]
    assert np.isnan(curve.published.sd_s).tolist() == [False, False, False, True]
    assert "a: slow regimes" in run(table).stdout


def test_series_may_be_left_out_and_a_stopped_request_is_a_bound(tmp_path):
    table = write(tmp_path / "mine.csv", "n_gen,e2e_s,lower_bound\n1,1.0,false\n2,2.0,true\n")
    curve = read_csv_curves(table)["mine"]
    assert curve.censored.tolist() == [False, True]


def test_a_file_of_a_windows_spreadsheet(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_bytes(b"\xef\xbb\xbfn_gen, e2e_s\r\n1,1.0\r\n2,2.0\r\n")
    assert read_csv_curves(path)["mine"].budget.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n_gen,e2e_s\n1,1\n2,fast\n", "line 3, column e2e_s: 'fast' is not a number"),
        ("n_gen,e2e_s\n1,1\n2,\n", "line 3, column e2e_s: empty, expected a number"),
        ("n_gen,e2e_s\n1,1\n2,-1\n", "line 3, column e2e_s: -1 is not from 1e-09 to 1,000,000,000"),
        ("n_gen,e2e_s\n1,1\n2,nan\n", "line 3, column e2e_s: nan is not from 1e-09 to"),
        ("n_gen,e2e_s\n1.5,1\n", "line 2, column n_gen: '1.5' is not a whole number"),
        ("n_gen,e2e_s\n0,1\n", "line 2, column n_gen: 0 is not from 1 to 1,000,000"),
        (f"n_gen,e2e_s\n1{'0' * 400},1\n", "line 2, column n_gen: 1000"),
        ("n_gen,e2e_s\n1,1e-320\n2,1\n", "line 2, column e2e_s: 1e-320 is not from"),
        ("n_gen,e2e_s\n1,1\n2,1e308\n", "line 3, column e2e_s: 1e308 is not from"),
        ("n_gen,e2e_s,lower_bound\n1,1,maybe\n", "line 2, column lower_bound: 'maybe' is neither true nor false"),
        ("n_gen,e2e_s\n1,1,7\n", "line 2: more values than the 2 columns"),
        ("n_gen,time\n1,1\n", "line 1: needs the columns n_gen, e2e_s or n_gen, e2e_s_mean; found n_gen, time"),
        ("n_gen,e2e_s\n", "line 2: no rows"),
        ("", "line 1: needs the columns"),
        ("n_gen,e2e_s,e2e_s\n1,1,9\n", "line 1: column e2e_s stands there twice"),
        ("n_gen,e2e_s,E2E_S\n1,1,9\n", "line 1: column e2e_s stands there twice"),
        ("n_gen,e2e_s_mean,e2e_s_std\n1,1,0.1\n", "column 'e2e_s_std' is not known: did you mean e2e_s_sd?"),
        ("n_gen,e2e_s,lower_bounds\n1,1,true\n", "column 'lower_bounds' is not known: did you mean lower_bound?"),
        (
            "n_gen,e2e_s,n_prompt\n1,1,64\n2,2,128\n",
            "column n_prompt: 2 values within the series 'bad', such as '64', '128'",
        ),
        (f"n_gen,e2e_s\n1,{'x' * 500}\n", "line 2, column e2e_s: '" + "x" * 77 + "...' is not a number"),
        ("n_gen,e2e_s_mean\n1,1\n1,2\n", "line 3, column n_gen: 1 stands on line 2 already"),
        ("n_gen,e2e_s_mean,e2e_s_sd\n1,1,-1\n", "line 2, column e2e_s_sd: -1 is not from 0 to"),
    ],
)
def test_a_bad_file_is_told_with_line_and_column(tmp_path, text, told):
    with pytest.raises(CsvError, match=r"bad\.csv") as error:
        read_csv_curves(write(tmp_path / "bad.csv", text))
    assert told in str(error.value)


def test_latencies_as_far_apart_as_they_may_be_can_be_compared(tmp_path):
    rows = [f"{32 * k},{1e-9 if k % 2 else 1e9}" for k in range(1, 21)]
    done = run(write(tmp_path / "far.csv", "\n".join(["n_gen,e2e_s", *rows])))
    assert (done.returncode, done.stderr) == (0, "")


def test_exit_status_is_2_for_a_bad_file_and_0_for_an_undetermined_one(tmp_path):
    bad = run(write(tmp_path / "bad.csv", "n_gen,e2e_s\n1,x\n"))
    assert bad.returncode == 2
    assert "line 2, column e2e_s" in bad.stderr
    assert "Traceback" not in bad.stderr
    missing = run(tmp_path / "none.csv")
    assert (missing.returncode, "Traceback" in missing.stderr) == (2, False)
    unsure = run(write(tmp_path / "one.csv", "n_gen,e2e_s\n1,1\n"))
    assert unsure.returncode == 0
    assert "undetermined" in unsure.stdout


def test_a_table_of_requests_becomes_three_tables(tmp_path, make_requests):
    write_table(make_requests({512: 10.0}), REQUESTS, tmp_path / "requests.parquet")
    paths = [tmp_path / f"{name}.parquet" for name in ("series", "regimes", "budgets")]
    flags = [part for path in paths for part in (f"--{path.stem}", path)]
    done = run(tmp_path / "requests.parquet", *flags)
    assert (done.returncode, done.stdout) == (0, "")
    series, regimes, budgets = (read_table(p, t) for p, t in zip(paths, (SERIES, REGIMES, BUDGETS), strict=True))
    assert (series.height, regimes.height, budgets.height) == (1, 1, 21)


CASES = Path(__file__).parent / "data" / "cases"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("min_mixed_3", "column model: 2 values within the series 'min_mixed_3', such as 'a', 'b'"),
        ("mixed_models_gap", "column model: 2 values within the series 'mixed_models_gap', such as 'a', 'b'"),
        ("mixed_prompt", "column n_prompt: 2 values within the series 'mixed_prompt', such as '64', '8192'"),
        ("min_dup", "line 1: column e2e_s stands there twice"),
    ],
)
def test_series_are_never_mixed(name, told):
    done = run(CASES / f"{name}.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "twice" in told or f"--group {told.split()[1].rstrip(':')}" in done.stderr


def test_a_column_named_makes_series_or_is_left_aside(tmp_path):
    grouped = read_csv_curves(CASES / "mixed_models_gap.csv", group=["model"])
    assert {name: curve.budget.tolist() for name, curve in grouped.items()} == {
        "mixed_models_gap, model a": [128, 256, 640, 768, 896, 1024],
        "mixed_models_gap, model b": [384, 512],
    }
    assert list(read_csv_curves(CASES / "mixed_models_gap.csv", ignore=["model"])) == ["mixed_models_gap"]
    done = run(CASES / "mixed_models_gap.csv", "--group", "modle")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no column modle to group by" in done.stderr


def test_columns_that_are_measured_or_notes_split_nothing(tmp_path):
    rows = [f"{128 * k},{k}.0,{k / 7},2026-01-01T00:00:{k:02}" for k in range(1, 9)]
    table = write(tmp_path / "mine.csv", "\n".join(["n_gen,e2e_s,ttft_s,started_at", *rows]))
    assert list(read_csv_curves(table)) == ["mine"]


def test_a_whole_number_may_be_written_with_a_point_and_a_header_in_capitals(tmp_path):
    table = write(tmp_path / "mine.csv", "Series,N_GEN,E2E_s\na,128.0,1.0\na,256.0,2.0\n")
    assert read_csv_curves(table)["a"].budget.tolist() == [128, 256]


def test_an_unknown_count_is_the_least_that_it_can_be(tmp_path):
    table = write(tmp_path / "t.csv", "n_gen,e2e_s_mean,e2e_s_sd,n\n1,1,,\n2,2,0.1,\n3,3,0.1,7\n")
    assert read_csv_curves(table)["t"].published.count.tolist() == [1, 2, 7]


def test_a_reader_that_stops_early_is_no_error():
    command = f"{sys.executable} {SCRIPT} {CASES / 'mixed_models_gap.csv'} --group model | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_requests_of_several_models_under_one_series_are_refused(tmp_path, make_requests):
    requests = make_requests()
    mixed = pl.concat([requests.with_columns(model=pl.lit(model)) for model in ("gpt2", "gpt2-medium")])
    write_table(mixed, REQUESTS, tmp_path / "requests.parquet")
    done = run(tmp_path / "requests.parquet")
    assert (done.returncode, done.stdout) == (2, "")
    assert "column model: 2 values within the series s: " in done.stderr
    assert done.stderr.rstrip().endswith("--group model")
    split = json.loads(run(tmp_path / "requests.parquet", "--group", "model", "--json").stdout)["series"]
    assert [series["series"] for series in split] == ["s, model gpt2", "s, model gpt2-medium"]
