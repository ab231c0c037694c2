"""From studies to cells: products, includes, excludes, devices, sequences, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedbump.grid.cells import axes_of, canonical, cell_id, series_id, takes_all
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models
from speedbump.grid.study import StudyError, read_study

MODELS = load_models(Path(__file__).parents[1] / "models")
CPU = {"cpu": True, "mps": False, "cuda": False}
MPS = {"cpu": True, "mps": True, "cuda": True}


def grid(computes=CPU, models=MODELS, protocol=None, **axes):
    experiment = {"name": "scan", "model": "tiny", "n_gen": "8-32+8", **axes}
    study = {"study": "s", "title": "S", "experiments": [experiment]}
    if protocol:
        study["protocol"] = protocol
    return expand_study(read_study(study, "x.yaml"), "x.yaml", models, lambda: computes)


def budgets(found):
    return [cell["n_gen"] for cell in found.cells["scan"]]


def test_a_product_with_include_and_exclude():
    found = grid(
        kv_cache=["dynamic", "off"],
        include=[{"n_gen": 64}],
        exclude=[{"kv_cache": "off", "n_gen": [32, 64]}],
    )
    assert [(cell["kv_cache"], cell["n_gen"]) for cell in found.cells["scan"]] == [
        *(("dynamic", n) for n in (8, 16, 24, 32)),
        *(("off", n) for n in (8, 16, 24)),
        ("dynamic", 64),
    ]


def test_an_include_that_repeats_the_product_adds_nothing():
    assert budgets(grid(include=[{"n_gen": 16}])) == [8, 16, 24, 32]


def test_the_accelerator_is_mps_before_cuda():
    assert {cell["device"] for cell in grid(MPS, device="accelerator").cells["scan"]} == {"mps"}
    assert {cell["device"] for cell in grid(MPS).cells["scan"]} == {"mps"}
    assert {cell["device"] for cell in grid().cells["scan"]} == {"cpu"}


def test_an_absent_device_is_a_notice():
    found = grid(device=["cpu", "cuda"])
    assert {cell["device"] for cell in found.cells["scan"]} == {"cpu"}
    assert found.notices == ["scan: no cuda that computes here; its cells are left out"]


def test_when_chooses_by_the_machine():
    study = {
        "study": "s",
        "title": "S",
        "experiments": [
            {"name": "a", "model": "tiny", "when": "accelerator", "device": "accelerator", "n_gen": 8},
            {"name": "b", "model": "tiny", "when": "no_accelerator", "n_gen": 16},
        ],
    }
    on = {
        name: expand_study(read_study(study, "x"), "x", MODELS, lambda computes=computes: computes)
        for name, computes in [("cpu", CPU), ("mps", MPS)]
    }
    assert [len(on["cpu"].cells[name]) for name in "ab"] == [0, 1]
    assert [len(on["mps"].cells[name]) for name in "ab"] == [1, 0]
    assert not on["cpu"].notices


@pytest.mark.parametrize(
    ("axes", "line"),
    [
        ({"model": "tinny"}, "x.yaml: experiments[scan].model: 'tinny' is not known; did you mean 'tiny'?"),
        ({"n_gen": None}, "x.yaml: experiments[scan].n_gen: is empty: name at least one value"),
        ({"exclude": [{"n_gen": "8-32+8"}]}, "x.yaml: experiments[scan]: the grid is empty"),
        ({"exclude": [{"n_gen": 9}]}, "x.yaml: experiments[scan].exclude[0]: no cell agrees with it"),
        ({"device": "cuda"}, "x.yaml: experiments: nothing to measure on this machine (scan: no cuda"),
        ({"order": "descending"}, "x.yaml: experiments[scan].order: descending needs lifetime: persistent"),
        ({"weights": "pretrained"}, "x.yaml: experiments[scan].weights: tiny names no pretrained weights"),
        ({"harness": "generate", "instrument": "per_step"}, "x.yaml: experiments[scan].instrument: generate() cannot"),
        ({"harness": "litserve", "instrument": "profile"}, "x.yaml: experiments[scan].instrument: a profile is of"),
        ({"lifetime": "persistent", "order": "replay"}, "x.yaml: experiments[scan].workload: order replay needs a CSV"),
        ({"compile": "inductor"}, "x.yaml: experiments[scan].compile: inductor needs kv_cache: static, not dynamic"),
        (
            {"compile": "inductor", "kv_cache": "static", "harness": "generate"},
            "x.yaml: experiments[scan].compile: inductor needs harness: loop, not generate",
        ),
        (
            {"compile": "inductor", "kv_cache": "static", "lifetime": "persistent"},
            "x.yaml: experiments[scan].compile: inductor needs lifetime: fresh, not persistent",
        ),
        (
            {"compile": "cuda_graph", "kv_cache": "static", "device": "cpu"},
            "x.yaml: experiments: nothing to measure on this machine (scan: compile cuda_graph needs CUDA, not cpu",
        ),
        (
            {"compile": "inductor", "kv_cache": "static", "protocol": {"warmups": 0}},
            "x.yaml: experiments[scan].compile: inductor needs a warm-up, in which it is made",
        ),
        (
            {"compile": "inductor", "kv_cache": "static", "refine": {"probe_warmups": 0}},
            "x.yaml: experiments[scan].compile: inductor needs a warm-up, in which it is made",
        ),
        ({"n_gen": "1-9999", "n_prompt": "1-99"}, "x.yaml: experiments[scan]: 989,901 cells; at most 100,000"),
    ],
)
def test_refused_before_any_job(axes, line):
    with pytest.raises(StudyError) as refusal:
        grid(**axes)
    assert str(refusal.value).startswith(line)
    assert "\n" not in str(refusal.value)


def test_a_cuda_graph_is_measured_on_cuda_alone():
    axes = {"kv_cache": "static", "compile": ["none", "cuda_graph"], "n_gen": 8, "device": "accelerator"}
    on_cuda = grid({"cpu": True, "mps": False, "cuda": True}, **axes)
    assert [cell["compile"] for cell in on_cuda.cells["scan"]] == ["none", "cuda_graph"]
    on_mps = grid(MPS, **axes)
    assert [cell["compile"] for cell in on_mps.cells["scan"]] == ["none"]
    assert on_mps.notices == ["scan: compile cuda_graph needs CUDA, not mps; its cells are left out"]


def test_prompt_and_budget_beyond_the_positions_are_refused():
    models = {"tiny": replace(MODELS["tiny"], positions=100)}
    assert budgets(grid(models=models, n_gen=35)) == [35]
    with pytest.raises(
        StudyError, match=r"prompt 65 \+ budget 36 = 101 tokens, but tiny has 100 positions: budgets up to 35"
    ):
        grid(models=models, n_gen=36)


def test_a_persistent_process_is_one_cell_with_its_budgets_in_order():
    for order, sequence in [("ascending", [8, 16, 24, 32]), ("descending", [32, 24, 16, 8])]:
        (cell,) = grid(lifetime="persistent", order=order).cells["scan"]
        assert cell["sequence"] == sequence
        assert cell["n_gen"] is None
    (shuffled,) = grid(lifetime="persistent", order="shuffled").cells["scan"]
    assert sorted(shuffled["sequence"]) == [8, 16, 24, 32]
    assert grid(lifetime="persistent", order="shuffled").cells["scan"] == [shuffled]


def test_a_replay_goes_through_the_workloads_lengths(tmp_path):
    (tmp_path / "w.csv").write_text("n_prompt,n_gen\n65,30\n65,8\n65,30\n")
    (cell,) = grid(lifetime="persistent", order="replay", workload=str(tmp_path / "w.csv")).cells["scan"]
    assert cell["sequence"] == [30, 8, 30]


def test_identity():
    first, second, *_ = grid().cells["scan"]
    assert cell_id(first).startswith("tiny.cpu.8.")
    assert cell_id(first) != cell_id(second)
    assert series_id(first, "m", "s") == series_id(second, "m", "s")
    assert series_id(first, "m", "s") != series_id(first, "m", "t")
    (more,) = grid(n_gen=8, protocol={"repeats": 9, "request_limit_s": 5}).cells["scan"]
    assert cell_id(more) != cell_id(first)
    assert series_id(more, "m", "s") == series_id(first, "m", "s")
    assert "dtype" not in canonical(first)
    assert axes_of(first)["dtype"] == "float32"


def test_what_disturbs_every_other_measurement_takes_all_devices():
    (plain,) = grid({"cpu": True, "mps": False, "cuda": True}, n_gen=8).cells["scan"]
    assert not takes_all(plain)
    assert takes_all({**plain, "ballast_gb": 2})
    assert takes_all(json.loads(canonical({**plain, "device": "cpu"})))


AXES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.lists(st.sampled_from(["float32", "float16", "bfloat16"]), min_size=1, unique=True),
        "kv_cache": st.lists(st.sampled_from(["dynamic", "static", "off"]), min_size=1, unique=True),
        "n_prompt": st.lists(st.integers(1, 90), min_size=1, max_size=3, unique=True),
        "n_gen": st.lists(st.integers(1, 90), min_size=1, max_size=6, unique=True),
        "process": st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True),
        "batch": st.sampled_from([1, 2, "1-4*2"]),
    },
)


@given(AXES)
def test_ids_are_as_many_as_cells_and_survive_a_round_trip(axes):
    cells = grid(**axes).cells["scan"]
    ids = [cell_id(cell) for cell in cells]
    assert len(set(ids)) == len(cells)
    assert all(name == name.lower() and len(name) < 200 for name in ids)
    assert [cell_id(json.loads(canonical(cell))) for cell in cells] == ids
    size = 1
    for name in ("dtype", "kv_cache", "n_prompt", "process"):
        size *= len(axes.get(name, [0]))
    size *= len(axes.get("n_gen", range(4))) * (3 if axes.get("batch") == "1-4*2" else 1)
    assert len(cells) == size


def test_budgets_may_be_left_out_for_a_replay_alone():
    study = {"study": "s", "title": "S", "experiments": [{"name": "scan", "model": "tiny", "lifetime": "persistent"}]}
    for order in (["ascending", "replay"], ["ascending"]):
        study["experiments"][0]["order"] = order
        with pytest.raises(StudyError, match=r"n_gen: is missing: name the budgets"):
            expand_study(read_study(study, "x.yaml"), "x.yaml", MODELS, lambda: CPU)


def test_a_replays_lengths_are_held_against_the_models_positions(tmp_path):
    file = tmp_path / "w.csv"
    file.write_text("n_gen\n8\n99999\n")
    with pytest.raises(StudyError, match="budget 99999 = 100064 tokens, but tiny has 512 positions"):
        grid(lifetime="persistent", order="replay", workload=str(file))
    for content, says in [("a,b\n1,2\n", "has no column n_gen"), ("n_gen\nmany\n", "not a whole number in n_gen")]:
        file.write_text(content)
        with pytest.raises(StudyError, match=says):
            grid(lifetime="persistent", order="replay", workload=str(file))


def test_an_applications_lengths_are_looked_at_before_anything_is_measured(tmp_path):
    file = tmp_path / "w.csv"
    file.write_text("bananas\n3\n")
    scan = {"name": "a", "model": "tiny", "n_gen": 8}
    study = {"study": "s", "title": "S", "workload": str(file), "experiments": [scan]}
    with pytest.raises(StudyError, match=r"x\.yaml: workload: .*w\.csv has no column n_prompt and n_gen"):
        expand_study(read_study(study, "x.yaml"), "x.yaml", MODELS, lambda: CPU)
