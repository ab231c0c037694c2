"""Environments of listed stacks: one for each combination of versions, made again only when its definition changes."""

import re
from pathlib import Path

import pytest

from speedbump.grid.environments import Made, list_environments, probe_again, python_of, read_made, usable
from speedbump.grid.stack import StackError
from speedbump.grid.study import StudyError, read_study


def listed(*stacks, machine="m"):
    study = {"study": "s", "title": "S", "experiments": [{"name": "scan", "n_gen": 8}], "stacks": list(stacks)}
    return list_environments(read_study(study, "x.yaml"), "x.yaml", machine)


def test_every_combination_once():
    two = {"torch": ["2.7.0", "2.8.0"], "transformers": ["4.57.6", "5.0.0"]}
    names = [definition.title for definition in listed(two, {"torch": "2.8.0", "transformers": "5.0.0"})]
    assert names == [f"torch {t}, transformers {f}" for t in ("2.7.0", "2.8.0") for f in ("4.57.6", "5.0.0")]


def test_the_name_changes_with_the_definition_alone():
    stack = {"torch": "2.8.0", "transformers": "4.57.6"}
    (name,) = {d.name for d in listed(stack, dict(reversed(stack.items())), {**stack, "torch": ["2.8.0"]})}
    assert re.fullmatch(r"torch-2\.8\.0_transformers-4\.57\.6_[0-9a-f]{8}", name)
    changes = ({"torch": "2.8.1"}, {"index": "https://example.org"}, {"extra_index": "https://example.org"})
    others = [listed({**stack, **change})[0].name for change in (*changes, {"find_links": "."}, {"packages": "x"})]
    others.append(listed(stack, machine="other")[0].name)
    assert len({name, *others}) == 7


@pytest.mark.parametrize(
    ("torch", "installed", "fits"),
    [
        ("2.8.0", "2.8.0", True),
        ("2.8.0", "2.8.0+cpu", True),
        ("2.8.0", "2.8.0.1", False),
        ("2.8.0", "2.8.01", False),
        ("2.8.0+cpu", "2.8.0+cpu", True),
        ("2.8.0+cpu", "2.8.0+cu128", False),
    ],
)
def test_a_stack_may_add_torchs_build_and_nothing_else(monkeypatch, torch, installed, fits):
    monkeypatch.setattr("speedbump.grid.environments.find_os", lambda: ("macos", "14.8"))
    (definition,) = listed({"torch": torch, "transformers": "4.57.6"})
    stack = f"macos-14.8_torch-{installed}_transformers-4.57.6"
    assert bool(re.fullmatch(definition.stack_pattern, stack)) is fits


@pytest.mark.parametrize("key", ["index", "extra_index", "find_links"])
@pytest.mark.parametrize("place", ["nowhere", "", "://", "x" * 5000])
def test_a_place_of_packages_that_is_not_there_is_one_line(key, place, tmp_path):
    stack = {"torch": "2.8.0", "transformers": "4.57.6"}
    with pytest.raises(StudyError, match=rf"x.yaml: stacks\[0\].{key}: {place!r} is no folder here"):
        listed({**stack, key: place})
    assert listed({**stack, key: "https://example.org/wheels"})
    assert listed({**stack, key: str(tmp_path)})


def test_a_package_is_a_requirement_or_a_file(tmp_path):
    stack = {"torch": "2.8.0", "transformers": "4.57.6"}
    with pytest.raises(StudyError, match=r"x.yaml: stacks\[0\].packages: 'lit serve' is no requirement, such as l"):
        listed({**stack, "packages": ["numpy", "lit serve"]})
    for nonsense in ("", "x " * 3000):
        with pytest.raises(StudyError, match="is no requirement"):
            listed({**stack, "packages": nonsense})
    wheel = tmp_path / "own build.whl"
    wheel.touch()
    assert listed({**stack, "packages": ["litserve>=0.2.16", str(wheel)]})


def test_no_stack_at_all_is_one_line_and_a_single_one_needs_no_list():
    study = {"study": "s", "title": "S", "experiments": [{"name": "scan", "n_gen": 8}]}
    with pytest.raises(StudyError, match=r"x.yaml: stacks: is empty: name at least one value, or leave the key out"):
        read_study({**study, "stacks": []}, "x.yaml")
    assert len(read_study({**study, "stacks": {"torch": "2.8.0", "transformers": "4.57.6"}}, "x.yaml").stacks) == 1


def test_only_what_was_made_is_used_and_a_stack_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stack = {"torch": ["2.8.0", "2.9.0", "2.10.0"], "transformers": "4.57.6"}
    first, second, broken, twin = listed(stack, {**stack, "torch": "2.8.0", "index": "https://example.org"})
    first.record.parent.mkdir(parents=True)
    for definition in (first, twin):
        made = Made(title=definition.title, stack="s", python=f"{definition.name}/bin/python")
        definition.record.write_text(made.model_dump_json())
    second.record.write_text(Made(title=second.title, failed="no such version").model_dump_json())
    broken.record.write_text("{")
    assert [definition for definition, _ in usable([first, second, broken, twin])] == [first]
    assert read_made(broken.record) is None
    assert python_of(first.record) == f"{first.name}/bin/python"
    with pytest.raises(StackError, match="no such version"):
        python_of(second.record)


@pytest.mark.parametrize(("present", "cuda", "asked"), [(True, True, True), (True, False, True), (False, True, False)])
def test_a_device_that_failed_is_asked_again_where_there_is_one(tmp_path, monkeypatch, present, cuda, asked):
    monkeypatch.chdir(tmp_path)
    (one,) = listed({"torch": "2.8.0", "transformers": "4.57.6"})
    python = one.folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    devices = {"cpu": {"computes": True, "present": True}, "cuda": {"computes": False, "present": present, "why": "w"}}
    one.record.write_text(Made(title=one.title, stack="s", python=str(python), devices=devices).model_dump_json())
    before, questions, said = one.record.read_text(), [], []

    def probe(interpreter):
        questions.append(interpreter)
        return {"cpu": devices["cpu"], "cuda": {"computes": cuda, "present": True, "why": "again"}}

    probe_again([one], probe, said.append, Path.write_text)
    assert questions == [str(python)] * asked
    assert read_made(one.record).computes == {"cpu": True, "cuda": asked and cuda}
    assert (one.record.read_text() == before) is not (asked and cuda)
    assert said[1:] == [f"{one.title}: cuda is there but does not compute: again"] * (asked and not cuda)
