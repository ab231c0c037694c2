"""The site as files: complete, reproducible, escaped, private."""

import filecmp
import json
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
import simulated
from building import REFERENCE, ROOT, TEMPLATES, build, build_by_scripts
from simulated import Line, Slow, simulate

from speedbump.report.check import defects, leaks
from speedbump.tables import TABLES

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def showcase(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(simulate(tmp_path_factory.mktemp("showcase"), simulated.showcase()))


def elements(page: str) -> Counter[str]:
    """How many elements of each kind a browser would make of the page."""
    counts: Counter[str] = Counter()
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: counts.update([tag])  # type: ignore[method-assign]
    parser.feed(page)
    return counts


def test_has_page_data_and_summary(showcase: Path) -> None:
    assert defects(showcase) == []
    offered = {path.name for path in (showcase / "data").iterdir()}
    for table in TABLES:
        if table.name != "memory_samples":
            assert {f"{table.name}.csv", f"{table.name}.parquet"} <= offered
    summary = json.loads((showcase / "summary.json").read_text())
    assert summary["verdict"].startswith(
        "5 of 13 measured curves fall into a slow regime; the worst, GPT-2 Large on MPS"
    )
    assert len(summary["curves"]) == len(simulated.showcase())
    requests = pl.read_parquet(showcase / "data" / "requests.parquet")
    assert requests.height == pl.read_csv(showcase / "data" / "requests.csv", infer_schema_length=None).height


def test_every_chart_is_on_the_page(showcase: Path) -> None:
    page = (showcase / "index.html").read_text()
    charts = [path.stem for path in (showcase.parent / "charts").glob("*.svg")]
    assert charts
    for name in charts:
        assert f'id="plot-{name}"' in page


def test_same_tables_same_bytes(showcase: Path, tmp_path: Path) -> None:
    for path in showcase.parent.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    again = build_by_scripts(tmp_path)
    files = sorted(str(path.relative_to(showcase)) for path in showcase.rglob("*") if path.is_file())
    assert files == sorted(str(path.relative_to(again)) for path in again.rglob("*") if path.is_file())
    assert filecmp.cmpfiles(showcase, again, files, shallow=False) == (files, [], [])


@pytest.mark.parametrize(
    "lines", [[], [Line(failed=dict.fromkeys(simulated.GRID, "out_of_memory"))], [Line(grid=(128,))]]
)
def test_little_or_nothing_measured(tmp_path: Path, lines: list[Line]) -> None:
    assert defects(build(simulate(tmp_path, lines))) == []


def test_five_stacks_on_five_machines(tmp_path: Path) -> None:
    stacks = [f"macos-14.8_torch-2.{minor}.0_transformers-4.57.6" for minor in (7, 8, 9, 10, 11)]
    slow = (Slow(512, 512, 8.0),)
    lines = [
        Line("gpt2", machine=f"machine-{number}", stack=stack, slow=slow if stack == stacks[0] else ())
        for number in range(5)
        for stack in stacks
    ]
    site = build(simulate(tmp_path, lines))
    assert defects(site) == []
    summary = json.loads((site / "summary.json").read_text())
    assert summary["verdict"].startswith("5 of 25 measured curves fall into a slow regime")
    page = (site / "index.html").read_text()
    assert "of 5 curves, 5 are unchanged" in page, "the two newest stacks of each machine"
    gone = [change["old_stack"] for change in summary["changes"] if change["verdict"] == "gone"]
    assert gone == [stacks[0]] * 20, "five machines, each of the four stacks after the oldest"
    assert len({curve["name"] for curve in summary["curves"]}) == 25


def test_first_look_shows_the_published_curve(tmp_path: Path) -> None:
    site = build(simulate(tmp_path, simulated.first_look(), compare_with_paper=True))
    page = (site / "index.html").read_text()
    for mark in ("W. F. Hendria, arXiv 2605.08913", "not on this machine", "paper v2", "author draft of 2026-05-05"):
        assert mark in page
    picture = (tmp_path / "charts" / "latency-published.svg").read_text()
    for source in ("paper v2", "author draft of 2026-05-05"):
        assert f">published: {source}<" in picture


def test_only_a_first_look_shows_the_published_curve(showcase: Path) -> None:
    assert "plot-latency-published" not in (showcase / "index.html").read_text()


def test_names_from_files_are_escaped(tmp_path: Path) -> None:
    line = Line(HOSTILE, slow=(Slow(512, 512, 9.0),), reason=HOSTILE, next=HOSTILE, failed={768: HOSTILE})
    folder = simulate(
        tmp_path, [line, Line(HOSTILE, "cpu")], title=HOSTILE, next_command=HOSTILE, next_hours=1.0,
        model_titles={}, environment={"chip": HOSTILE, HOSTILE: HOSTILE},
    )  # fmt: skip
    site = build(folder)
    page = (site / "index.html").read_text()
    assert elements(page)["script"] == 3
    assert elements(page)["img"] == 0
    assert "&lt;/script&gt;&lt;img" in page
    assert defects(site) == []


def test_names_nobody(tmp_path: Path) -> None:
    folder = simulate(
        tmp_path,
        [Line(failed={128: "failed"}, reason="see /Users/mallory/models")],
        environment={"hostname": "mallorys-mac", "cache": "/home/mallory/.cache", "chip": "Simulated"},
    )
    cells = pl.read_parquet(folder / "cells.parquet")
    cells.with_columns(message=pl.lit("no such file: /Users/mallory/x")).write_parquet(folder / "cells.parquet")
    site = build(folder)
    for path in site.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"mallory" not in content, path
            assert str(ROOT).encode() not in content, path
            assert leaks(content) == [], path


def test_check_names_what_a_mac_left_in_the_site(showcase: Path, tmp_path: Path) -> None:
    site = shutil.copytree(showcase, tmp_path / "site")
    for name in (".DS_Store", "data/._cells.csv"):
        (site / name).write_bytes(b"\x00\x05\x16\x07\xff")
    why = "is hidden and no part of the site: delete it"
    assert defects(site) == [f".DS_Store: {why}", f"data/._cells.csv: {why}"]


def test_check_names_each_defect(showcase: Path, tmp_path: Path) -> None:
    site = shutil.copytree(showcase, tmp_path / "site")
    (site / "data" / "cells.csv").unlink()
    (site / "summary.json").write_text("[]")
    page = (site / "index.html").read_text()
    page = page.replace("default-src", "default-sauce").replace("<main", '<img src="https://example.org/a.png"><main')
    (site / "index.html").write_text(page + "<p>/home/mallory/report</p>")
    assert sorted(set(defects(site))) == [
        "index.html: has no content security policy that begins with default-src 'none'",
        "index.html: links to data/cells.csv, which is missing",
        "index.html: loads https://example.org/a.png",
        "index.html: names a home folder, /home/mallory",
        "summary.json: is not a JSON object",
    ]


@pytest.mark.parametrize("script", ["draw_charts.py", "build_site.py"])
def test_what_is_missing_is_said_in_one_line(showcase: Path, tmp_path: Path, script: str) -> None:
    folder = simulate(tmp_path, [Line()])
    (folder / "series.parquet").unlink()
    arguments = ["--reference", REFERENCE, "--out", tmp_path / "out"]
    if script == "build_site.py":
        arguments += ["--charts", showcase.parent / "charts", "--templates", TEMPLATES]
    command = [sys.executable, ROOT / "scripts" / script, folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "series.parquet: cannot be read as Parquet" in done.stderr
