"""What fits into a machine's memory: what is left out or measured instead, in which order, and what is said."""

import math
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from speedbump.grid.cells import cell_id
from speedbump.grid.estimate import FIT_SHARE, cell_need, guess_s, measured_scale, what_fits
from speedbump.grid.expansion import expand_study
from speedbump.grid.models import load_models, memory_need
from speedbump.grid.room import GIB, Room, memory_of, turn_in
from speedbump.grid.study import StudyError, read_study

ROOT = Path(__file__).parents[2]
MODELS = load_models(ROOT / "config" / "models")
MPS = {"cpu": True, "mps": True, "cuda": False}
CPU = {"cpu": True, "mps": False, "cuda": False}


def study_of(name, **changes):
    file = f"config/{name}.yaml"
    return read_study({**yaml.safe_load((ROOT / file).read_text()), **changes}, file), file


def expand(name, memory_gb, runs=Path("none"), computes=MPS, **changes):
    study, file = study_of(name, **changes)
    room = Room(memory_gb * GIB, runs, study.limits.beyond_memory)
    return expand_study(study, file, MODELS, lambda: computes, room)


def lengths(cells):
    return [cell["n_gen"] for cell in cells]


@pytest.mark.parametrize(
    ("slug", "gib"),
    [
        ("apple-m3-max-36gb", 36),
        ("apple-m1-8gb", 8),
        ("amd-epyc-7b13-24gb_nvidia-a100-80gb", 24),
        ("intel-xeon-252gb_2x-nvidia-h200", 252),
        ("a-name-of-my-own", math.inf),
    ],
)
def test_the_memory_is_the_one_in_the_machines_name(slug, gib):
    assert memory_of(slug) == gib * GIB


@pytest.mark.parametrize(("n_gen", "gib"), [(384, 7.2), (512, 11.7), (640, 17.4), (768, 24.1)])
def test_the_published_sizes(n_gen, gib):
    cell = {"model": "gpt2", "device": "mps", "n_gen": n_gen}
    assert cell_need(cell, MODELS["gpt2"]) / GIB == pytest.approx(gib, abs=0.05)


@given(n_prompt=st.integers(1, 300), n_gen=st.integers(1, 700))
def test_the_pool_is_the_sum_over_all_sizes_of_the_cache(n_prompt, n_gen):
    model = MODELS["gpt2"]
    sizes = sum(range(n_prompt + 1, n_prompt + n_gen)) or n_prompt
    token = memory_need(model, "float32", "cpu", 2, 1) - memory_need(model, "float32", "cpu", 1, 1)
    assert memory_need(model, "float32", "mps", n_prompt, n_gen) == 4 * model.parameters + token * sizes


@pytest.mark.parametrize(
    ("memory_gb", "model", "longest"),
    [(128, "gpt2", 768), (36, "gpt2", 768), (32, "distilgpt2", 768), (18, "distilgpt2", 768), (16, "distilgpt2", 720),
     (8, "distilgpt2", 480)],
)  # fmt: skip
def test_the_first_look_takes_what_fits_and_says_so(memory_gb, model, longest):
    found = expand("config", memory_gb)
    cells = found.cells["accelerator_look"]
    assert {cell["model"] for cell in cells} == {model}
    assert (len(cells), max(lengths(cells))) == (6, longest)
    assert max(cell_need(cell, MODELS[model]) for cell in cells) <= FIT_SHARE * memory_gb * GIB
    assert len(set(lengths(cells))) == 6
    if model == "gpt2":
        assert found.notes == []
    else:
        (note,) = found.notes
        assert f"24 GiB, more than 0.7 of this machine's {memory_gb}: distilgpt2 in float32 at" in note
        assert f"to {longest} tokens is measured instead" in note
        assert note in found.notices


def test_the_page_about_macs_says_what_the_first_look_takes():
    rows = re.findall(r"\| (\d+) GB \| (\S+) \| (\d+) to (\d+) \|", (ROOT / "docs" / "mac.md").read_text())
    assert len(rows) == 6
    for memory_gb, title, shortest, longest in rows:
        cells = expand("config", int(memory_gb)).cells["accelerator_look"]
        assert {MODELS[cell["model"]].title for cell in cells} == {title}
        assert (min(lengths(cells)), max(lengths(cells))) == (int(shortest), int(longest))


def test_the_first_look_of_a_cpu_is_what_it_was():
    assert lengths(expand("config", 4, computes=CPU).cells["cpu_look"]) == list(range(16, 129, 16))


def test_who_asks_gets_the_first_look_as_it_is_written():
    found = expand("config", 8, limits={"beyond_memory": True})
    assert {cell["model"] for cell in found.cells["accelerator_look"]} == {"gpt2"}
    assert found.notes == []


@given(st.integers(1, 200))
def test_the_first_look_fits_whatever_the_memory(memory_gb):
    cells = expand("config", memory_gb).cells["accelerator_look"]
    most = max((cell_need(cell, MODELS[cell["model"]]) for cell in cells), default=0.0)
    assert most <= FIT_SHARE * memory_gb * GIB


def test_a_larger_study_asks_for_what_cannot_fit():
    found = expand("scan", 36)
    assert max(lengths(found.cells["medium_scan"])) == 544
    assert found.notices == found.notes
    (note,) = found.notes
    assert note == (
        "medium_scan: gpt2-medium on mps: 7 cells of 576 to 768 tokens need 38 to 64 GiB, more than this machine's 36, "
        "and are left out; to measure them: limits: {beyond_memory: true} in the study, or --config "
        "'limits={beyond_memory: true}'"
    )
    for asked in (True, "true"):  # what YAML gives, and what --config does
        assert max(lengths(expand("scan", 36, limits={"beyond_memory": asked}).cells["medium_scan"])) == 768


def test_what_was_asked_for_once_stays_in_the_study(tmp_path):
    everything = expand("scan", 36, limits={"beyond_memory": True}).cells["medium_scan"]
    run = tmp_path / "an-older-stack" / f"{cell_id(everything[-1])}.parquet"
    run.parent.mkdir()
    run.touch()
    assert lengths(expand("scan", 36, tmp_path).cells["medium_scan"])[-2:] == [544, 768]


def test_nothing_that_fits_is_one_line():
    with pytest.raises(StudyError, match=r"nothing to measure on this machine \(medium_scan: .*beyond_memory: true"):
        expand("scan", 1)


def test_memory_of_a_gpu_is_not_the_machines():
    computes = {"cpu": True, "mps": False, "cuda": True}
    assert max(lengths(expand("scan", 8, computes=computes).cells["medium_scan"])) == 768


def test_cells_at_risk_come_last_and_upwards():
    study, file = study_of("scan", limits={"beyond_memory": True})
    room = Room(36 * GIB, Path("none"), asked=True)
    cells = expand_study(study, file, MODELS, lambda: MPS, room).cells["medium_scan"]
    order = lengths(sorted(cells, key=lambda cell: -turn_in(cell, study, MODELS, room)))
    safe, risky = order[:-10], order[-10:]
    assert risky == [480, 512, 544, 576, 608, 640, 672, 704, 736, 768]
    assert safe != sorted(safe)
    assert all(type(turn) is int and 0 <= turn < 2**32 for turn in (turn_in(c, study, MODELS, room) for c in cells))


def test_within_blocks_the_risk_comes_last_in_each():
    study, _ = study_of("scan", limits={"beyond_memory": True}, blocks=2)
    room = Room(36 * GIB, Path("none"), asked=True)
    cells = [{**cell, "process": p} for cell in expand("scan", 36).cells["medium_scan"] for p in (1, 2)]
    order = sorted(cells, key=lambda cell: -turn_in(cell, study, MODELS, room))
    assert [cell["process"] for cell in order] == [1] * 14 + [2] * 14
    assert lengths(order[11:14]) == lengths(order[25:]) == [480, 512, 544]


@pytest.mark.parametrize("axes", [{"order": "replay", "lifetime": "persistent", "lengths": [8]}])
def test_a_replay_has_no_lengths_to_shorten(axes):
    experiment = {"name": "scan", "fit": [{"model": "distilgpt2"}], "n_gen": 8, **axes}
    study = read_study({"study": "s", "title": "S", "experiments": [experiment]}, "x.yaml")
    with pytest.raises(StudyError, match=r"experiments\[scan\].fit: a replay goes through its own lengths"):
        expand_study(study, "x.yaml", MODELS, lambda: MPS)


def test_what_stands_in_is_checked_as_the_rest_is():
    experiment = {"name": "scan", "fit": [{"model": "distilgpt"}], "n_gen": 8}
    study = read_study({"study": "s", "title": "S", "experiments": [experiment]}, "x.yaml")
    with pytest.raises(StudyError, match="'distilgpt' is not known; did you mean 'distilgpt2'"):
        expand_study(study, "x.yaml", MODELS, lambda: MPS)


def test_what_would_fit_instead():
    found = what_fits(MODELS["gpt2"], "mps", 8 * GIB, 384, MODELS.values())
    assert found["need_bytes"] / GIB == pytest.approx(7.2, abs=0.05)
    assert found["room_bytes"] == FIT_SHARE * 8 * GIB
    assert 320 < found["longest"] < 384
    assert found["instead"][0] == {"model": "gpt2", "title": MODELS["gpt2"].title, "dtype": "float16"}
    assert {"model": "distilgpt2", "title": MODELS["distilgpt2"].title, "dtype": "float32"} in found["instead"]
    for one in found["instead"]:
        assert memory_need(MODELS[one["model"]], one["dtype"], "mps", 65, 384) <= found["room_bytes"]


@given(st.sampled_from(sorted(MODELS)), st.sampled_from(["cpu", "mps"]), st.integers(1, 64), st.integers(1, 900))
def test_the_longest_that_fits_fits_and_the_next_does_not(name, device, memory_gb, n_gen):
    model = MODELS[name]
    found = what_fits(model, device, memory_gb * GIB, n_gen)
    need = {n: memory_need(model, "float32", device, 65, n) for n in range(1, n_gen + 1)}
    fitting = [n for n, bytes_ in need.items() if bytes_ <= found["room_bytes"]]
    longest = max(fitting, default=None)
    held = None if model.positions is None or longest is None else model.positions - 65
    assert found["longest"] == (longest if held is None else min(longest, held))


def test_on_a_gpu_of_its_own_memory_nothing_is_proposed():
    assert what_fits(MODELS["gpt2-large"], "cuda", 8 * GIB, 768, MODELS.values())["instead"] == []


def test_a_cell_that_was_not_started_says_nothing_of_the_machines_speed():
    cell = {"model": "gpt2", "device": "mps", "n_gen": 128, "warmups": 1, "repeats": 2}
    taken = {"cell": cell, "wall_s": 2 * guess_s(cell, MODELS["gpt2"])}
    left = {"cell": cell, "wall_s": 0.01, "requests_started": 0}
    assert measured_scale([left, taken, left], MODELS) == {"mps": pytest.approx(2.0)}
