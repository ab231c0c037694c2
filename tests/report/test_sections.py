"""Each section's finding, on curves whose truth is known."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
import simulated
from building import REFERENCE
from simulated import Line, Slow, simulate

from speedbump.report.changes import changes_between_stacks, every_change, upgrade_sentence
from speedbump.report.drawing import curve_datasets, draw_study
from speedbump.report.environment import facts
from speedbump.report.published import read_published
from speedbump.report.section import Section
from speedbump.report.sections import SECTIONS, cache, devices, lifetime, memory, phases, prompt, stacks, steps, tokens
from speedbump.report.study import Study, read_study
from speedbump.tables import CLAIMS, write_table

OTHER_STACK = "macos-14.8_torch-2.14.0_transformers-4.57.6"
SLOW = (Slow(512, 512, 10.0),)


def study_of(folder: Path, *lines: Line) -> Study:
    return read_study(simulate(folder, list(lines)))


def sections(study: Study) -> dict[str, Section]:
    published = read_published(REFERENCE)
    found = [section.describe(study, curve_datasets(study), published) for section in SECTIONS]
    return {section.anchor: section for section in found}


def test_order_is_the_page_s(tmp_path: Path) -> None:
    found = sections(study_of(tmp_path, Line()))
    order = "workload latency tokens steps phases cache memory prompt lifetime mechanism mitigations "
    order += "prediction profiles stacks devices claims"
    assert list(found) == order.split()


@pytest.mark.parametrize("kind", ["showcase", "first_look", "empty"])
def test_every_figure_is_drawn_and_every_chart_is_shown(tmp_path: Path, kind: str) -> None:
    lines = {"showcase": simulated.showcase, "first_look": simulated.first_look, "empty": list}[kind]()
    study = read_study(simulate(tmp_path, lines, compare_with_paper=kind == "first_look"))
    drawing = draw_study(study, read_published(REFERENCE))
    drawn = [chart.name for chart in drawing.charts]
    found = sections(study).values()
    shown = [name for section in found for figure in (*section.figures, *section.small) for name in figure.charts]
    assert sorted(drawn) == sorted(shown)
    assert len(set(drawn)) == len(drawn)
    for chart in drawing.charts:
        assert chart.description
        assert set(chart.data.values()) <= set(drawing.datasets)


def test_section_without_data_says_what_would_fill_it(tmp_path: Path) -> None:
    found = sections(study_of(tmp_path))
    for section in found.values():
        assert section.empty.startswith("Filled by"), section.anchor
        assert "\n" not in section.empty
    assert not sections(study_of(tmp_path, Line()))["latency"].empty


def test_tables_hold_the_values_of_what_is_drawn(tmp_path: Path) -> None:
    table = sections(study_of(tmp_path, Line(slow=SLOW, stopped={768: 300.0})))["latency"].table
    assert table is not None
    assert [row[1] for row in table.rows] == list(simulated.GRID)
    assert table.rows[-1][2] == "at least 300"
    assert {row[-1] for row in table.rows} == {"normal", "slow"}


@pytest.mark.parametrize(
    ("slow", "words"), [((), r"\d of 5 curves\."), (SLOW, r"\d of 5 curves, the most affected first\.")]
)
def test_where_nothing_is_slow_no_curve_is_most_affected(tmp_path: Path, slow: tuple[Slow, ...], words: str) -> None:
    models = ("gpt2-medium", "gpt2-large", "gpt2", "distilgpt2", "opt-350m")
    found = sections(study_of(tmp_path, *(Line(model, slow=slow if k == 0 else ()) for k, model in enumerate(models))))
    for anchor in ("tokens", "phases", "memory"):
        assert re.search(words, found[anchor].lead)


def test_curves_of_like_verdict_come_with_the_most_lengths_first(tmp_path: Path) -> None:
    few, many = (128, 256, 384, 512), tuple(range(128, 769, 64))
    study = study_of(tmp_path, Line("distilgpt2", grid=few), Line("opt-350m", grid=many), Line("gpt2", grid=few))
    assert [curve.row["model"] for curve in study.curves] == ["opt-350m", "distilgpt2", "gpt2"]


def test_the_machine_is_its_chip_its_memory_and_its_gpu(tmp_path: Path) -> None:
    known = read_study(simulate(tmp_path / "gpu", [Line()], environment={"gpu": "NVIDIA H200"}))
    assert dict(facts(known))["Machine"] == "Simulated chip, 36 GB (NVIDIA H200)"
    assert dict(facts(study_of(tmp_path / "none", Line())))["Machine"] == "Simulated chip, 36 GB"
    folder = simulate(tmp_path / "both", [Line(), Line(stack=OTHER_STACK)])
    entries = json.loads((folder / "environment.json").read_text())
    entries[1]["environment"]["gpu"] = "NVIDIA H200"
    (folder / "environment.json").write_text(json.dumps(entries))
    assert dict(facts(read_study(folder)))["Machine"] == "Simulated chip, 36 GB (NVIDIA H200)"


def test_rate_leaves_out_what_never_finished(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW, stopped={512: 90.0}))
    section = sections(study)["tokens"]
    assert section.table is not None
    assert 512 not in [row[1] for row in section.table.rows]
    points = tokens.rate_points(study.curves[0], curve_datasets(study)["c1"])
    assert [row["rate"] for row in points if row["n"] == 512] == [None]
    assert tokens.rate_finding(study.curves[0]).startswith("GPT-2 Medium on MPS makes")


def test_rate_names_the_neighbour(tmp_path: Path) -> None:
    (curve,) = study_of(tmp_path, Line(slow=SLOW)).curves
    assert " tokens per second at 512 tokens and " in tokens.rate_finding(curve)
    assert tokens.rate_finding(curve).endswith(" at 384")


def test_excess_is_in_decode(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW))
    (curve,) = study.curves
    finding = phases.phase_finding(curve, phases.times_of(study, curve))
    assert finding.startswith("512 tokens take ")
    assert " more than 384, and 100% of it is decode: prefill takes 56.0 ms of " in finding


def test_prefill_share_of_a_smooth_curve(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line())
    (curve,) = study.curves
    assert phases.phase_finding(curve, phases.times_of(study, curve)).startswith("Prefill is 0.")


def test_whose_time_it_is_on_cuda(tmp_path: Path) -> None:
    host = Line(device="cuda", per_token_s=0.009)
    graph = Line(device="cuda", per_token_s=0.002, axes={"kv_cache": "static", "compile": "cuda_graph"})
    off = Line(device="cuda", per_token_s=0.05, axes={"kv_cache": "off"})
    lead = sections(study_of(tmp_path / "both", host, graph, off))["phases"].lead
    assert "the host’s Python starts every kernel of a step" in lead
    span = re.search(r"A step of GPT-2 Medium takes [\d.]+ to ([\d.]+) ms; as one CUDA graph it takes", lead)
    assert span
    assert float(span[1]) < 20, "without the curve whose cache is off"
    assert "CUDA graph" not in sections(study_of(tmp_path / "host", host))["phases"].lead
    assert "Python" not in sections(study_of(tmp_path / "mps", Line(), graph))["phases"].lead


def test_a_disturbed_cell_is_no_time_of_a_step_unless_all_are(tmp_path: Path) -> None:
    def longest_ms(name: str, disturbed: tuple[int, ...]) -> float:
        flags = dict.fromkeys(disturbed, "the host's sentinel took 1.4 times as long after the cell as before")
        line = Line(device="cuda", per_token_s=0.009, slow=SLOW, disturbed=flags)
        span = re.search(r" to ([\d.]+) ms\.", sections(study_of(tmp_path / name, line))["phases"].lead)
        assert span
        return float(span[1])

    assert longest_ms("quiet", ()) > 80
    assert longest_ms("one", (512,)) < 20
    assert longest_ms("all", simulated.GRID) > 80


def test_cache_benefit_inside_and_outside(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW), Line(axes={"kv_cache": "off"}))
    ((on, off),) = cache.pairs(study)
    assert (on.row["kv_cache"], off.row["kv_cache"]) == ("dynamic", "off")
    finding = sections(study)["cache"].finding
    assert finding.startswith("GPT-2 Medium on MPS takes ")
    assert " as long without the cache outside the slow regime, and 0." in finding


def test_memory_that_does_not_follow(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW))
    (curve,) = study.curves
    ((_, points),) = memory.drawn(study, curve_datasets(study))
    assert memory.memory_finding(curve, points).endswith("; no memory counter falls with it")
    following = [{**row, "torch_driver": 1e9 if row["n"] > 512 else row["torch_driver"]} for row in points]
    assert memory.memory_finding(curve, following).endswith("of 5 memory counters, driver memory falls with it")


def test_counters_not_read_are_not_drawn(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(device="cpu", stack="linux-6.1_torch-2.13.0_transformers-5.24.0"))
    ((_, points),) = memory.drawn(study, curve_datasets(study))
    assert memory.counters(points) == ["rss", "system_used", "swap_used"]


def test_prompt_moves_the_onset_in_one_count_or_the_other(tmp_path: Path) -> None:
    fine = tuple(range(384, 705, 16))
    by_output = [Line(axes={"n_prompt": p}, grid=fine, slow=(Slow(512, 608, 9.0),)) for p in (3, 65)]
    study = study_of(tmp_path / "output", *by_output)
    assert prompt.prompt_finding(prompt.groups(study)[0]).endswith("counted in output length alone")
    by_total = [
        Line(axes={"n_prompt": p}, grid=fine, slow=(Slow(first, 640, 9.0),)) for p, first in ((1, 576), (65, 512))
    ]
    study = study_of(tmp_path / "total", *by_total)
    assert prompt.prompt_finding(prompt.groups(study)[0]).endswith("counted in prompt and output together")


def test_prompt_with_and_without_a_regime(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW), Line(axes={"n_prompt": 3}))
    finding = prompt.prompt_finding(prompt.groups(study)[0])
    assert finding.endswith("has a slow regime with a prompt of 65, and none is shown with 3")


def test_what_makes_it_go_away(tmp_path: Path) -> None:
    emptied = Line(axes={"between_requests": "empty_cache"})
    rested = Line(axes={"between_requests": "rest_5s"}, slow=SLOW)
    study = study_of(tmp_path, Line(slow=SLOW), emptied, rested)
    assert lifetime.lifetime_finding(study, lifetime.arms(study)) == (
        "Lengths that are slow in a fresh process are normal with cache emptied between requests and not all normal "
        "with rest 5s between requests"
    )


def test_what_slow_steps_follow(tmp_path: Path) -> None:
    (slow,) = study_of(tmp_path / "slow", Line(slow=SLOW)).curves
    (smooth,) = study_of(tmp_path / "smooth", Line()).curves
    row = {
        "n_slow_requests": 5,
        "n_requests": 40,
        "first_slow_request": 3,
        "first_slow_step": 120,
        "why": "where a request is slow, 12 % of the others are slow at the same position",
    }
    assert steps.slow_step_note(smooth, {"follows": "nothing"}) == "No request has slow steps."
    assert steps.slow_step_note(slow, {**row, "follows": "state"}) == (
        "5 of 40 requests have slow steps: from request 4 of the process on, and typically from step 120. "
        "Where a request is slow, 12 % of the others are slow at the same position, "
        "so it follows what the process did before, not the position."
    )
    assert steps.slow_step_note(slow, {**row, "follows": "position"}).endswith("the position in the request alone.")
    assert steps.slow_step_note(slow, {**row, "follows": "can't tell"}).endswith("cannot be told apart.")
    assert steps.slow_step_note(smooth, {**row, "follows": "state"}) == (
        "5 of 40 requests have steps above the usual time at their place. The curve shows no slow regime, so nothing "
        "is concluded from them."
    )


def test_steps_of_a_slow_length(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(axes={"instrument": "per_step"}, slow=SLOW))
    ((curve, times),) = steps.drawn(study)
    assert steps.step_finding(curve, times).startswith("All of the steps at 512 tokens take more than twice the median")
    tiles = steps.tiles(times)
    assert len(tiles) <= steps.MOST_TILES
    assert {tile["n"] for tile in tiles} == set(simulated.GRID)
    assert all(0 <= int(tile["shade"]) < steps.SHADES for tile in tiles)


def test_upgrade_that_fixes(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW), Line(stack=OTHER_STACK), Line("gpt2"), Line("gpt2", stack=OTHER_STACK))
    changed, same = changes_between_stacks(study)
    assert (changed.word, changed.name, same.word) == ("gone", "GPT-2 Medium on MPS", "unchanged")
    assert changed.old.row["stack"] == simulated.STACK
    section = sections(study)["stacks"]
    assert section.finding == (
        "torch 2.14.0 against torch 2.8.0: of 2 curves, 1 has lost a slow regime and 1 is unchanged"
    )
    assert section.table is not None
    assert next(row[3:5] for row in section.table.rows) == ("gone", "The regime at 512 tokens is gone.")
    assert [figure.heading for figure in section.figures] == ["GPT-2 Medium on MPS: torch 2.14.0 ÷ torch 2.8.0"]


def test_one_stack_has_no_section_of_stacks(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW), Line(slow=SLOW, machine="simulated-128gb"))
    assert changes_between_stacks(study) == []
    assert upgrade_sentence([]) == ""
    assert sections(study)["stacks"].empty.startswith("Filled by")
    (change,) = every_change(study)
    assert (change.word, change.between_stacks) == ("unchanged", False)
    lead = sections(study)["devices"].lead
    assert lead.endswith("Simulated-36gb against simulated-128gb: of 1 curve, 1 shows no difference.")


def test_a_change_is_named_by_what_both_stacks_share(tmp_path: Path) -> None:
    """Three stacks: their titles name two versions, of which the two compared share one."""
    stacks_ = [simulated.STACK, OTHER_STACK, OTHER_STACK.replace("4.57.6", "5.1.0")]
    lines = [Line(axes={"n_prompt": prompt}, stack=stack) for stack in stacks_ for prompt in (3, 65)]
    names = {change.name for change in every_change(study_of(tmp_path, *lines))}
    assert names == {"GPT-2 Medium on MPS", "GPT-2 Medium on MPS (prompt 3)"}


def test_history_over_three_stacks(tmp_path: Path) -> None:
    versions = [f"macos-14.8_torch-2.{minor}.0_transformers-4.57.6" for minor in (9, 10, 11)]
    slow = ((Slow(512, 640, 10.0),), (Slow(512, 640, 5.0),), ())
    lines = [Line(stack=stack, slow=own) for stack, own in zip(versions, slow, strict=True)]
    study = study_of(tmp_path, *lines, Line("gpt2"), Line("gpt2", stack=versions[0]))
    (history,) = stacks.histories(study)
    assert [curve.row["stack"] for curve in history] == versions, "2.9 comes before 2.10"
    note = next(f.note for f in sections(study)["stacks"].figures if "over 3 stacks" in f.heading)
    assert note == ("Torch 2.9.0: 10.0× at 512–640; torch 2.10.0: 5.0× at 512–640; torch 2.11.0: no slow regime.")
    assert [change.newest for change in changes_between_stacks(study)] == [True, False, False]


def test_devices_of_one_stack_are_compared(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW), Line(device="cpu"), Line(stack=OTHER_STACK))
    (group,) = devices.groups(study)
    assert devices.device_finding(group) == "GPT-2 Medium has a slow regime on MPS and shows none on CPU"


def test_machines_are_told_apart(tmp_path: Path) -> None:
    study = study_of(tmp_path, Line(slow=SLOW), Line(machine="simulated-128gb"))
    (group,) = devices.groups(study)
    assert devices.device_finding(group) == (
        "GPT-2 Medium has a slow regime on MPS (simulated-36gb) and shows none on MPS (simulated-128gb)"
    )


def claim(number: int, outcome: str, origin: str = "measured") -> dict[str, object]:
    """A row of the claims table."""
    here = origin == "measured"
    return {
        **dict.fromkeys(CLAIMS.schema.names()),
        "claim_id": f"C{number}",
        "claim": "Latency is non-monotone",
        "paper_value": "21.1",
        "unit": "x",
        "origin": origin,
        "machine": simulated.MACHINE if here else None,
        "stack": simulated.STACK if here else None,
        "outcome": outcome,
        "value": "14.5" if outcome in ("holds", "differs") else None,
        "low": 12.1 if outcome == "holds" else None,
        "high": 17.4 if outcome == "holds" else None,
        "why": "as measured",
    }


def with_claims(folder: Path, rows: list[dict[str, object]]) -> Study:
    simulate(folder, [Line(slow=SLOW)])
    write_table(pl.DataFrame(rows, schema=CLAIMS.schema), CLAIMS, folder / "claims.parquet")
    return read_study(folder)


def test_claims_score_with_its_gaps(tmp_path: Path) -> None:
    outcomes = ["holds", "holds", "differs", "can't tell", "not measured", "not measured"]
    rows = [claim(number, outcome) for number, outcome in enumerate(outcomes, 1)]
    section = sections(with_claims(tmp_path, [claim(1, "holds", "published"), *rows]))["claims"]
    assert section.finding == (
        "2 of 6 claims of the paper hold here; 1 differs, 1 cannot be told and 2 were not measured"
    )
    assert section.open
    assert section.table is not None
    assert section.table.rows[0][:4] == ("C1. Latency is non-monotone", "21.1×", "holds", "14.5× (12.1–17.4)")


def test_claims_of_several_machines_stand_once_for_each_that_answers_them(tmp_path: Path) -> None:
    """The score is that of the machine where most are decided, and names it."""
    first = [claim(1, "can't tell"), claim(2, "not measured"), claim(3, "not measured"), claim(4, "holds")]
    second = [claim(1, "holds"), claim(2, "holds"), claim(3, "not measured"), claim(4, "not measured")]
    second = [{**row, "machine": "simulated-128gb"} for row in second]
    section = sections(with_claims(tmp_path, [*first, *second]))["claims"]
    assert section.finding == "2 of 4 claims of the paper hold on simulated-128gb; 2 were not measured there"
    assert section.table is not None
    assert section.table.columns[:2] == ("Claim", "Where")
    assert [(row[0].partition(".")[0], row[1], row[5]) for row in section.table.rows] == [
        ("C1", "simulated-128gb", "holds"),
        ("C1", simulated.MACHINE, "can't tell"),
        ("C2", "simulated-128gb", "holds"),
        ("C3", "", "not measured"),
        ("C4", simulated.MACHINE, "holds"),
    ]


def test_claims_of_which_none_was_measured_are_not_shown(tmp_path: Path) -> None:
    section = sections(with_claims(tmp_path, [claim(1, "holds", "published"), claim(1, "not measured")]))["claims"]
    assert section.empty.startswith("Filled by the paper’s grid, which checks 21 published claims")
