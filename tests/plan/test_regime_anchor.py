"""Studies around a known regime: what experiments take over, equal totals, replays, blocks."""

import json
from pathlib import Path

import pytest
import yaml

from speedbump.grid.axes import DEFAULTS
from speedbump.grid.cells import cell_id
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models
from speedbump.grid.order import measuring_order
from speedbump.grid.study import StudyError, read_study
from speedbump.plan.regime_anchor import GRID, around_in_words, place_around

ROOT = Path(__file__).parents[2]
MODELS = load_models(ROOT / "tests" / "models")
GIVEN = {"regime": {"model": "tiny", "device": "cpu", "n_prompt": 5, "normal": [16, 48], "slow": [24, 40]}}


def cells_of(*experiments, around=GIVEN, machine="m", stack="s", computes=None, **study):
    content = {"study": "s", "title": "S", "around": around, "experiments": list(experiments), **study}
    placed, centre = place_around(read_study(content, "x.yaml"), "x.yaml", machine, stack)
    computes = computes or {"cpu": True, "mps": False, "cuda": False}
    return expand_study(placed, "x.yaml", MODELS, lambda: computes), centre


def write_summary(folder, *curves):
    (folder / "site").mkdir(parents=True)
    (folder / "site" / "summary.json").write_text(json.dumps({"curves": curves}))
    return {"study": str(folder)}


def curve(machine="m", stack="s", slowdown=10.0, accepted=True, **axes):
    regime = {
        **{"accepted": accepted, "confirmed": True, "onset_low": 99, "onset_high": 100, "recovery_low": 163},
        **{"recovery_high": 164, "slowdown": slowdown, "worst_n_gen": 128},
    }
    return {
        **{"series": "s", "name": "Tiny, CPU", "machine": machine, "stack": stack, "verdict": "slow regimes"},
        "axes": {"model": "tiny", "device": "cpu", "n_prompt": 9, "instrument": "step_sync", **axes},
        "lengths_measured": {"n_gen_min": 32, "n_gen_max": 250},
        "regimes": [regime],
    }


def test_an_experiment_takes_over_what_it_does_not_name():
    grid, centre = cells_of({"name": "static", "kv_cache": "static"}, {"name": "other", "n_gen": 7, "n_prompt": 1})
    assert [cell["n_gen"] for cell in grid.cells["static"]] == [16, 24, 40, 48]
    assert {(cell["model"], cell["n_prompt"], cell["kv_cache"]) for cell in grid.cells["static"]} == {
        ("tiny", 5, "static")
    }
    assert [(cell["n_prompt"], cell["n_gen"]) for cell in grid.cells["other"]] == [(1, 7)]
    assert around_in_words(centre) == ["around tiny on cpu, from the study: slow at 24, 40, normal at 16, 48"]


def test_a_pair_is_one_budget_within_and_the_nearest_beside():
    grid, _ = cells_of({"name": "profile", "at": "pair", "instrument": "profile"})
    assert [cell["n_gen"] for cell in grid.cells["profile"]] == [40, 48]
    smooth = {"regime": {**GIVEN["regime"], "slow": [8], "normal": [16, 48]}}
    grid, _ = cells_of({"name": "profile", "at": "pair"}, around=smooth)
    assert [cell["n_gen"] for cell in grid.cells["profile"]] == [8, 16]


def test_equal_totals_and_equal_budgets():
    grid, _ = cells_of({"name": "budget", "n_prompt": [3, 9]}, {"name": "total", "n_prompt": [3, 9], "keep": "total"})
    assert {cell["n_gen"] for cell in grid.cells["budget"]} == {16, 24, 40, 48}
    totals = [cell["n_prompt"] + cell["n_gen"] for cell in grid.cells["total"]]
    assert totals == [21, 29, 45, 53] * 2
    with pytest.raises(StudyError, match=r"experiments\[total\].keep: prompt 21 leaves no token"):
        cells_of({"name": "total", "n_prompt": [21], "keep": "total"})
    with pytest.raises(StudyError, match=r"experiments\[total\].keep: total needs n_prompt"):
        cells_of({"name": "total", "keep": "total"})


def test_what_is_kept_around_a_regime_needs_one():
    content = {"study": "s", "title": "S", "experiments": [{"name": "a", "model": "tiny", "n_gen": 8, "at": "pair"}]}
    with pytest.raises(StudyError, match=r"x.yaml: experiments\[a\].at: needs around in the study"):
        place_around(read_study(content, "x.yaml"), "x.yaml", "m", "s")


@pytest.mark.parametrize("choice", [{"at": "pair"}, {"keep": "total", "n_prompt": 3}])
def test_budgets_are_named_or_chosen_not_both(choice):
    with pytest.raises(
        StudyError, match=r"x.yaml: experiments\[a\].(at|keep): chooses among the regime's budgets, and "
    ):
        cells_of({"name": "a", "n_gen": 8, **choice})


def test_persistent_processes_go_through_all_budgets_and_a_replay_mixes_them():
    orders = ["ascending", "descending", "shuffled", "replay"]
    grid, _ = cells_of({"name": "life", "lifetime": "persistent", "order": orders})
    sequences = {cell["order"]: cell["sequence"] for cell in grid.cells["life"]}
    assert sequences["ascending"] == sequences["descending"][::-1] == [16, 24, 40, 48]
    assert sorted(sequences["replay"]) == sorted([16, 24, 40, 48] * 3) != sequences["replay"]


def test_blocks_repeat_every_process_one_after_the_other():
    grid, _ = cells_of({"name": "a"}, {"name": "once", "process": 1, "kv_cache": "static"}, blocks=3)
    assert len(grid.cells["a"]) == 12
    assert len(grid.cells["once"]) == 4
    turns = sorted(grid.cells["a"], key=lambda c: -measuring_order(cell_id(c), 0, c["process"]))
    assert min(measuring_order(cell_id(c), 0, c["process"]) for c in turns) > 0
    assert [cell["process"] for cell in turns] == [1] * 4 + [2] * 4 + [3] * 4
    within = [[cell["n_gen"] for cell in turns if cell["process"] == block] for block in (1, 2, 3)]
    assert all(sorted(budgets) == [16, 24, 40, 48] for budgets in within)
    assert len({tuple(budgets) for budgets in within}) > 1


def test_the_worst_regime_that_a_scan_found_here_on_this_stack(tmp_path):
    around = write_summary(
        tmp_path / "scan",
        curve(stack="old", slowdown=90.0, n_prompt=1),
        curve(machine="other", slowdown=80.0, n_prompt=2),
        curve(slowdown=3.0, n_prompt=3),
        curve(slowdown=20.0, n_prompt=4, process=7),
    )
    grid, centre = cells_of({"name": "a"}, around=around)
    assert centre.axes == {"model": "tiny", "device": "cpu", "n_prompt": 4, "instrument": "step_sync"}
    assert {99, 100, 163, 164, 128} <= set(centre.budgets)
    assert set(centre.slow) == {n for n in centre.budgets if 100 <= n <= 163}
    assert all(n % GRID == 0 for n in set(centre.budgets) - {32, 99, 100, 163, 164, 250})
    assert [cell["n_gen"] for cell in grid.cells["a"]] == centre.budgets


def test_only_a_plain_curve_is_one_to_compare_arms_with(tmp_path):
    eager, persistent = {"attention": "eager"}, {"lifetime": "persistent", "order": "descending"}
    around = write_summary(
        tmp_path / "scan", curve(slowdown=90.0, **eager), curve(slowdown=80.0, **persistent), curve(n_prompt=4)
    )
    _, centre = cells_of({"name": "a"}, around=around)
    assert centre.axes == {"model": "tiny", "device": "cpu", "n_prompt": 4, "instrument": "step_sync"}
    none = write_summary(tmp_path / "none", curve(**eager), curve(**persistent), curve(machine="other"))
    with pytest.raises(StudyError, match=r"x.yaml: around.study: no .* leaves attention, lifetime, order at the def"):
        cells_of({"name": "a"}, around=none)


def test_without_a_regime_a_few_budgets_are_spread(tmp_path):
    around = write_summary(tmp_path / "scan", curve(accepted=False))
    _, centre = cells_of({"name": "a"}, around=around)
    assert (centre.normal, centre.slow) == ([32, 112, 176, 250], [])
    assert "no slow regime is known" in around_in_words(centre)[0]
    elsewhere = write_summary(tmp_path / "elsewhere", curve(machine="other"))
    with pytest.raises(StudyError, match=r"x.yaml: around.study: \S+ has no curve of this machine: run it here first"):
        cells_of({"name": "a"}, around=elsewhere)


@pytest.mark.parametrize(
    ("around", "line"),
    [
        ({}, "x.yaml: around: give one of study and regime"),
        ({**GIVEN, "study": "results/studies/scan"}, "x.yaml: around: give one of study and regime"),
        ({"regime": {**GIVEN["regime"], "slo": 3}}, "x.yaml: around.regime.slo: unknown key; did you mean 'slow'?"),
        (
            {"study": "nowhere"},
            "x.yaml: around.study: nowhere/site/summary.json is missing: run the study nowhere",
        ),
    ],
)
def test_refused_in_one_line(around, line):
    with pytest.raises(StudyError) as refusal:
        cells_of({"name": "a"}, around=around)
    assert str(refusal.value).startswith(line)


def test_ballast_and_watermarks_are_measured_on_request_alone():
    arms = [{"name": "ballast", "ballast_gb": 2}, {"name": "mark", "watermark": ["high_1.0", "low_0.8"]}]
    regime = {**GIVEN["regime"], "device": "accelerator"}
    mps = {"cpu": True, "mps": True, "cuda": False}
    careful, _ = cells_of({"name": "a"}, *arms, around={"regime": regime}, computes=mps)
    assert [len(careful.cells[name]) for name in ("ballast", "mark")] == [0, 0]
    assert careful.notices == [
        "ballast: ballast_gb only on request, limits: {allow_ballast: true}; its cells are left out",
        "mark: watermark only on request, limits: {allow_watermark: true}; its cells are left out",
    ]
    asked = {"allow_ballast": True, "allow_watermark": True}
    bold, _ = cells_of({"name": "a"}, *arms, around={"regime": regime}, computes=mps, limits=asked)
    assert [len(bold.cells[name]) for name in ("ballast", "mark")] == [4, 8]
    on_cpu, _ = cells_of({"name": "a"}, *arms, limits=asked)
    assert on_cpu.notices == ["mark: watermark needs MPS, not cpu; its cells are left out"]


@pytest.mark.parametrize("mark", ["high_2.1", "low_1.8", "high_0", "mid_1", "high_"])
def test_a_watermark_that_the_allocator_would_refuse(mark):
    with pytest.raises(StudyError, match=r"is not default, high_<ratio> up to 2 or low_<ratio> up to 1.7"):
        cells_of({"name": "a", "watermark": mark})


@pytest.mark.parametrize("axes", [{}, {"instrument": "free_running"}, {"batch": 2, "n_prompt": 3}])
@pytest.mark.parametrize("device", ["cpu", "mps", "cuda"])
def test_the_mechanism_study_fits_whatever_a_scan_found(tmp_path, axes, device):
    content = yaml.safe_load((ROOT / "config" / "mechanism.yaml").read_text())
    content["limits"] = {"allow_ballast": True, "allow_watermark": True}
    found = curve(**{"model": "gpt2", "device": device, **axes})
    content["around"]["study"] = write_summary(tmp_path / "scan", found)["study"]
    placed, _ = place_around(read_study(content, "x.yaml"), "x.yaml", "m", "s")
    models = load_models(ROOT / "config" / "models")
    computes = {"cpu": True, "mps": device == "mps", "cuda": device == "cuda"}
    grid = expand_study(placed, "x.yaml", models, lambda: computes)
    empty = {name for name, cells in grid.cells.items() if not cells}
    assert empty == {"cpu": {"graph", "watermark"}, "mps": {"graph"}, "cuda": {"watermark"}}[device]
    reference, *_ = grid.cells["reference"]
    for name in ("static", "no_cache", "eager", "half", "emptied", "rested", "predecessor", "ballast"):
        differing = {axis for axis in DEFAULTS if grid.cells[name][0][axis] != reference[axis]}
        assert len(differing) == 1, name
    assert len({cell["process"] for cell in grid.cells["static"]}) == 2
    assert {cell["process"] for cell in grid.cells["memory"]} == {1}
