"""What is said of listed stacks whose environments are made, and which job asks for a GPU; nothing is measured."""

import re

import pytest

pytestmark = pytest.mark.pipeline
STUDY = "tests/studies/two_builds.yaml"
STUDY_TEXT = """
study: two_builds
title: Two builds of one version
models: tests/models
stacks:
  - {torch: [2.13.0, 2.13.0+cpu], transformers: 5.24.0}
experiments:
  - {name: scan, model: tiny, device: [cpu, cuda], n_prompt: 5, n_gen: [8, 16]}
"""
PREPARE = """
import json
from pathlib import Path
from speedbump.grid.devices import devices_file
from speedbump.grid.environments import Made, list_environments
from speedbump.grid.machine import find_machine, find_os
from speedbump.grid.stack import find_stack, stack_slug
from speedbump.grid.study import read_study
import yaml

devices = lambda cuda: {d: {"computes": c, "present": c} for d, c in (("cpu", True), ("mps", False), ("cuda", cuda))}
own = devices_file(find_machine(), find_stack())
own.parent.mkdir(parents=True)
own.write_text(json.dumps(devices(True)))
study = read_study(yaml.safe_load(Path("STUDY").read_text()), "STUDY")
for one, cuda in zip(list_environments(study, "STUDY", find_machine()), (True, False), strict=True):
    one.folder.mkdir(parents=True)
    stack = stack_slug(find_os(), one.torch, one.transformers)
    made = Made(title=one.title, stack=stack, python=f"{one.folder}/bin/python", devices=devices(cuda))
    one.record.write_text(made.model_dump_json())
""".replace("STUDY", STUDY)


@pytest.fixture
def two_builds(fresh):
    (fresh.root / STUDY).write_text(STUDY_TEXT)
    done = fresh.script("-c", PREPARE)
    assert done.returncode == 0, done.stderr
    return fresh


def test_a_build_without_a_device_is_said_and_its_cells_are_not_counted(two_builds):
    before = two_builds.tree()
    outcome = two_builds.run("--dry-run", study=STUDY)
    assert outcome.status == 0, outcome.text
    assert two_builds.tree() == before, "a dry run writes nothing"
    lines = outcome.text.splitlines()
    left_out = "scan: no cuda that computes here; its cells are left out"
    assert [line for line in lines if left_out in line] == [
        f"speedbump: torch 2.13.0+cpu, transformers 5.24.0: {left_out}"
    ]
    assert any(line.startswith("speedbump: scan: 6 cells, 0 done") for line in lines), outcome.text


@pytest.mark.parametrize(("device", "gpu"), [("[cpu, cuda]", 1), ("cpu", 0)])
def test_an_environment_for_cuda_cells_is_made_where_a_gpu_is(two_builds, device, gpu):
    two_builds.edit(STUDY, "[cpu, cuda]", device)
    two_builds.edit(STUDY, "[2.13.0, 2.13.0+cpu]", "2.8.0")
    outcome = two_builds.run("--dry-run", "--quiet=host", study=STUDY)
    assert outcome.jobs["make_stack"] == 1, outcome.text
    (resources,) = re.findall(r"^checkpoint make_stack:$.*?resources: (.*?)$", outcome.text, re.MULTILINE | re.DOTALL)
    assert f"gpu={gpu}" in resources
