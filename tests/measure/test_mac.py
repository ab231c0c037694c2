"""What is recorded of a Mac, and how it is held awake, from what its tools print."""

import sys

import pytest

from speedbump.measure import environment, power
from speedbump.measure.environment import describe_mac, describe_machine, git_commit, parse_gpu_cores

IOREG = """+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x10000047c, registered, matched, active, busy 0>
    {
      "IOClass" = "AGXAcceleratorG13X"
      "gpu-core-count" = 7
      "model" = "Apple M1"
    }
"""


@pytest.fixture
def mac(monkeypatch):
    """A Mac whose kernel says this, and whose tools print that, by the first of their words."""
    kernel = {
        "hw.model": "MacBookAir10,1",
        "hw.perflevel0.physicalcpu": 4,
        "hw.perflevel1.physicalcpu": 4,
        "iogpu.wired_limit_mb": 0,
    }
    printed = {
        "ioreg": IOREG,
        "sw_vers": "25B78",
        "sysctl": "Apple M1",
        "xcode-select": "/Library/Developer",
        "git": "abc",
    }
    monkeypatch.setattr(environment.sys, "platform", "darwin")
    monkeypatch.setattr(environment, "read_text", kernel.get)
    monkeypatch.setattr(environment, "read_int", kernel.get)
    monkeypatch.setattr(environment, "_ask", lambda *command: printed.get(command[0], ""))
    monkeypatch.setattr(environment, "find_os_version", lambda: "26.1")
    return kernel, printed


def test_an_air_and_a_mini_of_one_chip_differ_in_the_record(mac):
    kernel, _ = mac
    air = describe_machine()
    assert air["model"] == "MacBookAir10,1"
    assert (air["gpu_cores"], air["performance_cores"], air["efficiency_cores"]) == (7, 4, 4)
    assert (air["gpu_wired_limit_mb"], air["os_release"]) == (0, "26.1")
    kernel["hw.model"] = "Macmini9,1"
    assert describe_machine() == {**air, "model": "Macmini9,1"}


def test_what_a_mac_does_not_say_is_none(mac):
    kernel, printed = mac
    kernel.clear()
    printed.clear()
    assert set(describe_mac().values()) == {None}
    assert parse_gpu_cores("") is None


@pytest.mark.skipif(sys.platform == "darwin", reason="of other systems")
def test_other_systems_have_no_such_keys():
    assert "model" not in describe_machine()


def test_git_is_asked_in_a_clone_alone_and_never_where_it_would_open_a_window(mac, tmp_path):
    _, printed = mac
    assert git_commit(tmp_path) is None
    (tmp_path / ".git").touch()  # a file in a worktree, a folder in a clone
    assert git_commit(tmp_path) == "abc"
    printed["xcode-select"] = ""
    assert git_commit(tmp_path) is None


def test_the_display_may_go_dark(monkeypatch):
    started = []
    monkeypatch.setattr(power.sys, "platform", "darwin")
    monkeypatch.setattr(power.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(power.subprocess, "Popen", started.append)
    monkeypatch.setattr(power.os, "getpid", lambda: 42)
    power.hold_off_sleep()
    assert started == [["caffeinate", "-ims", "-w", "42"]]


def test_elsewhere_nothing_is_started(monkeypatch):
    monkeypatch.setattr(power.sys, "platform", "linux")
    monkeypatch.setattr(power.subprocess, "Popen", lambda command: pytest.fail("started"))
    assert power.hold_off_sleep() is None
