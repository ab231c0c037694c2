"""The sections on why it is slow and what to do about it, on tables whose content is known."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from building import build
from simulated import MACHINE, Line, Slow, simulate
from test_sections import sections

from speedbump.report.sections import prediction, profiles
from speedbump.report.study import Study, read_study
from speedbump.tables import HYPOTHESES, MITIGATIONS, PREDICTIONS, PROFILES, REQUESTS, Table, write_table

SLOW = (Slow(512, 512, 10.0),)


def with_table(folder: Path, table: Table, rows: list[dict[str, Any]], *lines: Line) -> Study:
    """A simulated study with rows of one more table; those that name no series are of its first curve."""
    study = read_study(simulate(folder, list(lines) or [Line(slow=SLOW)]))
    series = study.curves[0].series
    own = [{column: series for column in ("series", "reference") if column in table.schema} | row for row in rows]
    write_table(pl.DataFrame(own, schema=table.schema), table, folder / f"{table.name}.parquet")
    return read_study(folder)


def hypothesis(name: str, verdict: str, **row: Any) -> dict[str, Any]:
    return {
        **{
            "hypothesis": name,
            "statement": f"What {name} says",
            "verdict": verdict,
            "why": "since so many cells say so",
        },
        **{"prediction": "it is slow", "needed": True, "observable": "regime", "expected": "above 1.4", "against": ""},
        **{"outcome": "agrees", "seen": "a slow budget", "value": 9.0, "low": 8.0, "high": 10.0, "arm": "reference"},
        **row,
    }


@pytest.mark.parametrize(
    ("verdicts", "finding"),
    [
        (
            {"H1": "supported", "H3": "supported", "H6": "contradicted"},
            "Why GPT-2 Medium on MPS is slow: the allocator’s pool outgrows the memory (H1)",
        ),
        (
            {"H1": "can't tell", "H5": "can't tell", "H6": "contradicted"},
            "No single hypothesis is shown to explain GPT-2 Medium on MPS: 2 cannot be told, 1 are contradicted",
        ),
        (
            {"H1": "nothing to explain", "H2": "nothing to explain"},
            "GPT-2 Medium on MPS: no regime; nothing to explain",
        ),
    ],
)
def test_what_explains_it(tmp_path, verdicts, finding):
    study = with_table(tmp_path, HYPOTHESES, [hypothesis(*pair) for pair in verdicts.items()])
    section = sections(study)["mechanism"]
    assert section.finding == finding
    assert [row[1] for row in section.table.rows] == list(verdicts.values())
    ((_, predictions),) = section.folded
    assert predictions.rows[0][2] == "9.00 (8.00 to 10.0); a slow length; reference"


def test_of_several_stacks_the_newest_s_worst_curve_is_the_title(tmp_path):
    newest, older = "macos-14.8_torch-2.10.0_transformers-4.57.6", "macos-14.8_torch-2.9.0_transformers-4.57.6"
    lines = [
        Line(slow=(Slow(512, 512, 30.0),), stack=older),
        Line(slow=(Slow(512, 512, 4.0),), stack=newest),
        Line(model="gpt2-large", slow=(Slow(512, 512, 6.0),), stack=newest),
        Line(slow=(Slow(512, 512, 40.0),), stack=newest, machine="another"),
    ]
    study = read_study(simulate(tmp_path, lines, machine=MACHINE))
    series = sorted(curve.series for curve in study.curves)
    reasons = [hypothesis(name, "supported", series=one) for one in series for name in ("H1", "H3")]
    helps = [{**mitigation("kv_cache", "static", 1, 1.1, 1.0), "reference": one} for one in series]
    write_table(pl.DataFrame(reasons, schema=HYPOTHESES.schema), HYPOTHESES, tmp_path / "hypotheses.parquet")
    write_table(pl.DataFrame(helps, schema=MITIGATIONS.schema), MITIGATIONS, tmp_path / "mitigations.parquet")
    found = sections(read_study(tmp_path))
    names = [
        f"GPT-2 Large on MPS ({MACHINE}, torch 2.10.0)",
        f"GPT-2 Medium on MPS ({MACHINE}, torch 2.10.0)",
        f"GPT-2 Medium on MPS ({MACHINE}, torch 2.9.0)",
        "GPT-2 Medium on MPS (another)",
    ]
    assert found["mechanism"].finding.startswith(f"Why {names[0]} is slow")
    assert list(dict.fromkeys(row[1] for row in found["mechanism"].table.rows)) == names
    assert [figure.heading for figure in found["mitigations"].figures] == names


def test_a_curve_that_may_not_be_slow_has_no_explanation(tmp_path):
    line = Line(slow=(Slow(512, 512, 3.0, accepted=False),), verdict="undetermined", reason="too little to tell")
    study = with_table(tmp_path, HYPOTHESES, [hypothesis("H1", "can't tell")], line)
    assert sections(study)["mechanism"].finding.startswith("GPT-2 Medium on MPS: not known whether it is slow")


def test_an_untested_prediction_says_what_it_needs(tmp_path):
    row = hypothesis("H1", "can't tell", value=None, low=None, high=None, seen="kv_cache: static", outcome="not tested")
    section = sections(with_table(tmp_path, HYPOTHESES, [row]))["mechanism"]
    assert section.folded[0][1].rows[0][1:3] == ("not tested", "needs kv_cache: static")


def mitigation(axis: str, value: str, rank: int, slowdown: float | None, price: float | None) -> dict[str, Any]:
    ends = {
        f"{name}_{end}": number
        for name, number in (("slowdown", slowdown), ("price", price))
        for end in ("low", "high")
    }
    own = {"axis": axis, "value": value, "rank": rank, "slowdown": slowdown, "price": price, "lower_bound": False}
    return {**own, **ends, "reference_slowdown": 10.0 if slowdown else None}


def test_what_helps_most_and_what_it_costs(tmp_path):
    rows = [
        mitigation("ballast_gb", "8", 1, 0.9, 1.0),
        mitigation("kv_cache", "static", 2, 1.02, 1.05),
        mitigation("between_requests", "rest_5s", 3, 9.8, 1.0),
    ]
    study = with_table(tmp_path, MITIGATIONS, rows)
    section = sections(study)["mitigations"]
    assert section.finding == (
        "What to do about it on this machine: static cache brings a slow-down of 10.0× down to 1.02×, and takes 1.05× "
        "as long elsewhere"
    )
    assert [row[0] for row in section.table.rows] == ["static cache", "rest 5s between requests"]
    assert "mitigations-1" in (build(tmp_path) / "index.html").read_text()


def test_nothing_helps(tmp_path):
    study = with_table(tmp_path, MITIGATIONS, [mitigation("kv_cache", "static", 1, 9.0, 1.0)])
    assert sections(study)["mitigations"].finding.startswith("None of 1 change tried makes the slow regime of GPT-2")


def test_prices_alone_where_nothing_is_slow(tmp_path):
    study = with_table(tmp_path, MITIGATIONS, [mitigation("kv_cache", "static", 1, None, 1.05)], Line())
    section = sections(study)["mitigations"]
    assert section.finding == "GPT-2 Medium on MPS: no regime, nothing to avoid; what 1 change would cost"
    assert section.table.columns == ("Change", "Price at normal lengths (95 %)")


def test_a_prediction_counts_each_configuration_once_and_a_miss_before_a_hit(tmp_path):
    row = {
        **{"origin": "measured", "machine": "m", "stack": "s", "model": "gpt2", "device": "mps", "dtype": "float32"},
        **{"kv_cache": "dynamic", "n_prompt": 65, "expected_normal": 400, "expected_slow": 420, "n_gen_max": 768},
        **{"onset_low": 384, "onset_high": 512, "fitted_n": 1},
    }
    rows = [
        {**row, "instrument": "per_step", "outcome": "hit"},
        {**row, "instrument": "step_sync", "outcome": "miss"},
        {**row, "model": "gpt2-large", "outcome": "hit"},
    ]
    study = with_table(tmp_path, PREDICTIONS, rows)
    assert len(prediction.configurations(study.predictions)) == 2
    section = sections(study)["prediction"]
    assert section.finding.endswith("would put the onset where it is in 1 of 2 curves measured here")
    assert section.table.rows[1][2:5] == ("401–420", "after 384, by 512", "hit")


def test_operators_of_a_slow_length_beside_a_normal_one(tmp_path):
    def operator(name: str, n_gen: int, ms_a_token: float, side: str = "host") -> dict[str, Any]:
        seconds = {f"self_{side}_s": ms_a_token * n_gen / 1000, "self_host_s": ms_a_token * n_gen / 1000}
        return {"n_gen": n_gen, "request": 3, "operator": name, "side": side, "calls": n_gen, **seconds}

    rows = [operator("mm", 384, 2.0), operator("mm", 512, 2.1), operator("cat", 384, 0.5), operator("cat", 512, 8.5)]
    rows += [operator("only", 512, 0.1), operator("kernel", 384, 1.0, "device"), operator("kernel", 512, 1.0, "device")]
    study = with_table(tmp_path, PROFILES, rows)
    (pair,) = profiles.pairs(study)
    assert (pair.slow, pair.over, pair.under) == (True, 512, 384)
    found = {row["operator"]: row["difference_ms"] for row in pair.operators}
    assert found == pytest.approx({"cat": 8.0, "mm": 0.1, "only": 0.1, "kernel": 0.0})
    assert profiles.profile_finding(pair) == (
        "GPT-2 Medium on MPS: a token takes longer at 512 than at 384 tokens, and 98% of it is in cat"
    )


def test_operators_where_no_length_is_slow(tmp_path):
    row = {"request": 3, "operator": "mm", "side": "host", "calls": 1, "self_host_s": 1.0}
    study = with_table(tmp_path, PROFILES, [{**row, "n_gen": 128}, {**row, "n_gen": 640}], Line())
    assert sections(study)["profiles"].finding.endswith("no slow length was profiled; operators at 640 and 128 tokens")


def test_profiles_as_the_pipeline_leaves_them_are_of_the_curve_measured_alike(tmp_path):
    lines = [Line(slow=SLOW), Line(slow=SLOW, axes={"harness": "generate"}, per_token_s=0.02)]
    plain = read_study(simulate(tmp_path, lines))
    (own,) = (curve for curve in plain.curves if curve.row["harness"] == "loop")
    profiled = (
        plain.requests.filter(series=own.series)
        .head(1)
        .with_columns(series=pl.lit("profiled"), instrument=pl.lit("profile"))
    )
    write_table(pl.concat([plain.requests, profiled]), REQUESTS, tmp_path / "requests.parquet")
    row = {"series": "profiled", "request": 3, "operator": "mm", "side": "host", "calls": 1}
    rows = [{**row, "n_gen": 384, "self_host_s": 0.384}, {**row, "n_gen": 512, "self_host_s": 5.12}]
    write_table(pl.DataFrame(rows, schema=PROFILES.schema), PROFILES, tmp_path / "profiles.parquet")
    study = read_study(tmp_path)
    assert "profiled" not in [curve.series for curve in study.curves]
    (pair,) = profiles.pairs(study)
    assert (pair.curve.series, pair.slow, pair.over, pair.under) == (own.series, True, 512, 384)
    assert [row["difference_ms"] for row in pair.operators] == pytest.approx([9.0])
