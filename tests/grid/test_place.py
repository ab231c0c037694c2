"""The machine, the stack and the devices, found without torch."""

import json
import subprocess
import sys

import pytest

from speedbump.grid import machine, stack
from speedbump.grid.devices import DevicesError, recall_devices


def computes(**devices):
    return {name: {"computes": works, "present": there} for name, (works, there) in devices.items()}


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_probes_answer_is_asked_for_once(tmp_path):
    asked = []

    def probe():
        asked.append(1)
        return computes(cpu=(True, True), mps=(False, False), cuda=(False, False))

    file = tmp_path / "machines" / "m" / "s.json"
    for _ in range(3):
        assert recall_devices(file, probe, lambda line: None, write) == {"cpu": True, "mps": False, "cuda": False}
    assert len(asked) == 1


def test_a_device_that_is_there_and_fails_is_tried_again_and_said(tmp_path):
    answers = [computes(cpu=(True, True), mps=(False, True)), computes(cpu=(True, True), mps=(True, True))]
    said = []
    file = tmp_path / "s.json"
    assert recall_devices(file, lambda: answers.pop(0), said.append, write)["mps"] is False
    assert said[-1].startswith("mps is there but does not compute")
    assert recall_devices(file, lambda: answers.pop(0), said.append, write)["mps"] is True
    assert answers == []


@pytest.mark.parametrize("content", ["", "[]", "{", '{"cpu": 1}', '{"cpu": {}}'])
def test_a_broken_answer_is_asked_for_again(tmp_path, content):
    file = tmp_path / "s.json"
    file.write_text(content)
    assert recall_devices(file, lambda: computes(cpu=(True, True)), lambda line: None, write) == {"cpu": True}
    assert json.loads(file.read_text())["cpu"]["computes"] is True


def test_the_stack_is_what_the_packages_themselves_say():
    found = stack.find_stack()
    code = "import torch, transformers; print(torch.__version__, transformers.__version__)"
    torch, transformers = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert found.endswith(f"_torch-{torch}_transformers-{transformers}")
    assert stack.find_stack(sys.executable) == found


def test_finding_the_stack_imports_neither_package():
    code = (
        "import sys; sys.path.insert(0, 'scripts'); from speedbump.grid.stack import find_stack; find_stack();"
        "print(sorted({'torch', 'transformers', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Says which stack is found where packages of the given versions are installed, on the given macOS."""

    def find(macos="14.8.1", **versions):
        packages = {"torch": "2.8.0", "transformers": "4.57.6", "polars": "1.34.0", "altair": "6.0.0", **versions}
        for name, version in packages.items():
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            for file in ("__init__.py", "version.py"):
                (folder / file).write_text(f"__version__ = '{version}'\n")
            metadata = tmp_path / f"{name}-1.dist-info"
            metadata.mkdir(exist_ok=True)
            (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        monkeypatch.setattr(machine.platform, "system", lambda: "Darwin")
        monkeypatch.setattr(machine.platform, "mac_ver", lambda: (macos, ("", "", ""), "arm64"))
        return stack.find_stack()

    return find


def test_torch_with_its_build_transformers_and_the_minor_version_of_the_os_are_the_stack(installed):
    before = installed()
    assert before == "macos-14.8_torch-2.8.0_transformers-4.57.6"
    changed = [
        installed(torch="2.9.0"),
        installed(torch="2.8.0+cpu"),
        installed(transformers="5.0.0"),
        installed("14.9"),
    ]
    assert len({before, *changed}) == 5


def test_nothing_else_is(installed):
    before = installed()
    others = {"polars": "9.9.9", "altair": "9.9.9", "snakemake": "99.0.0", "numpy": "9.9.9", "psutil": "9.9.9"}
    assert installed("14.8.2", **others) == before


def test_a_missing_package_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(stack.StackError, match=r"torch is not installed for python.*: pip install"):
        stack.find_stack()


def test_a_macs_slug(monkeypatch):
    monkeypatch.setattr(machine, "find_chip", lambda: "Apple M3 Max")
    monkeypatch.setattr(machine, "find_gpus", list)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: type("Memory", (), {"total": 36 * 2**30})())
    assert machine.find_machine() == "apple-m3-max-36gb"


def test_a_gpus_slug(monkeypatch):
    monkeypatch.setattr(machine, "find_chip", lambda: "AMD EPYC 7B13 64-Core Processor")
    monkeypatch.setattr(machine, "find_gpus", lambda: ["NVIDIA H200", "NVIDIA H200"])
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: type("Memory", (), {"total": 251.6 * 2**30})())
    assert machine.find_machine() == "amd-epyc-7b13-252gb_2x-nvidia-h200"


def test_a_declared_machine_that_nobody_asked_is_refused_and_never_probed_here(tmp_path):
    file = tmp_path / "m" / "s.json"
    file.parent.mkdir()
    missing = r"s\.json: missing or broken; run python scripts/probe_devices.py on a node that measures"
    with pytest.raises(DevicesError, match=f"{missing}$"):
        recall_devices(file, None, lambda line: None, write)
    (tmp_path / "n").mkdir()
    (tmp_path / "n" / "s.json").write_text("{}")
    with pytest.raises(DevicesError, match=f"{missing}, or give .* machine= one that is known: n$"):
        recall_devices(file, None, lambda line: None, write)
    (file.parent / "other.json").write_text("{}")
    with pytest.raises(DevicesError, match=f"{missing}, or give .* stack= one that m has: other"):
        recall_devices(file, None, lambda line: None, write)
    file.write_text(json.dumps(computes(cpu=(True, True), cuda=(False, True))))
    assert recall_devices(file, None, lambda line: None, write) == {"cpu": True, "cuda": False}
