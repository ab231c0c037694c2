"""The memory guard on simulated counters, and where it reads them."""

import struct
import sys

import psutil
import pytest

from speedbump.grid import sysctl
from speedbump.grid.study import Guard
from speedbump.measure import memory, process, system
from speedbump.measure.guard import Watch, swap_limit_gb
from speedbump.measure.need import Need, held_bytes
from speedbump.measure.process import settle_memory
from speedbump.measure.system import CRITICAL, NORMAL, WARNING, Memory, parse_stalled, read_system

GIB = 2**30
FINE = Memory(16 * GIB, 8 * GIB, GIB, NORMAL)


class Machine:
    """Memory, clock and stalls that a test sets."""

    def __init__(self, folder, guard):
        self.now, self.at_s, self.stalls = FINE, 0.0, None
        self.watch = Watch(guard, FINE, folder, lambda: self.now, lambda: self.stalls, lambda: self.at_s)

    def breach(self, *, after_s=0.0, **counters):
        self.at_s += after_s
        self.now = Memory(**{**vars(FINE), **counters})
        return self.watch.breach()


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path, Guard())


def test_a_calm_machine_is_left_alone(machine):
    assert machine.breach() is None


@pytest.mark.parametrize(("memory_gb", "limit_gb"), [(8, 1), (16, 2), (32, 4), (128, 4)])
def test_the_swap_limit_follows_the_memory_unless_the_study_says_one(memory_gb, limit_gb):
    total = Memory(memory_gb * GIB, 0, 0)
    assert swap_limit_gb(Guard(), total) == limit_gb
    assert swap_limit_gb(Guard(swap_growth_gb=9), total) == 9


def test_each_limit_is_named_with_its_numbers(machine, tmp_path):
    assert machine.breach(swap_bytes=int(3.2 * GIB)) == "swap grew by 2.2 GiB, the limit is 2"
    assert machine.breach(available_bytes=GIB // 4) == "0.2 GiB of memory free, the limit is 0.5"
    assert "of disk free, the limit is 1e+09" in Machine(tmp_path, Guard(free_disk_gb=1e9)).breach()
    assert machine.watch.swap_peak_bytes == int(3.2 * GIB) - GIB


def test_critical_pressure_stops_at_once(machine):
    assert machine.breach(pressure=CRITICAL) == "macOS says that memory pressure is critical"


def test_a_warning_stops_where_it_lasts_within_one_request(machine):
    assert machine.breach(pressure=WARNING) is None
    assert machine.breach(pressure=WARNING, after_s=100.0) is None
    machine.watch.calm()
    assert machine.breach(pressure=WARNING, after_s=100.0) is None
    assert machine.breach(pressure=WARNING, after_s=100.0) is None
    assert machine.breach(after_s=10.0) is None
    assert machine.breach(pressure=WARNING, after_s=10.0) is None
    lasted = "macOS has warned of memory pressure for 121 s, the limit is 120"
    assert machine.breach(pressure=WARNING, after_s=121.0) == lasted


def test_a_linux_machine_that_only_waits_for_memory_is_stopped(machine):
    machine.stalls = 0.2
    assert machine.breach() is None
    machine.stalls = 0.63
    assert machine.breach() == "all processes waited for memory 63% of the last 10 s, the limit is 50%"


def test_stalls_are_read_from_what_linux_counts():
    text = "some avg10=33.00 avg60=1.00 avg300=0.00 total=9\nfull avg10=12.50 avg60=1.00 avg300=0.00 total=9\n"
    assert parse_stalled(text) == 0.125
    assert parse_stalled("") is None
    assert parse_stalled("some avg10=33.00\n") is None


@pytest.fixture
def mac(monkeypatch):
    """A Mac's kernel, whose values a test may change; psutil, whose answers there may be a second old, is not asked."""
    values = {
        "hw.memsize": struct.pack("=Q", 16 * GIB),
        "vm.swapusage": struct.pack("=QQQIi", 4 * GIB, 3 * GIB, GIB, 16384, 1),
        "vm.page_free_count": struct.pack("=I", 1000),
        "vm.page_pageable_external_count": struct.pack("=I", 200),
        "vm.page_purgeable_count": struct.pack("=I", 30),
        "kern.memorystatus_vm_pressure_level": struct.pack("=i", WARNING),
    }
    monkeypatch.setattr(system.sys, "platform", "darwin")
    monkeypatch.setattr(system, "read_int", lambda name: _number(values.get(name)))
    monkeypatch.setattr(system, "read_swap_bytes", lambda: sysctl._XSW_USAGE.unpack(values["vm.swapusage"])[2])
    monkeypatch.setattr(system.resource, "getpagesize", lambda: 16384)
    for name in ("virtual_memory", "swap_memory"):
        monkeypatch.setattr(psutil, name, lambda name=name: pytest.fail(f"psutil.{name} was asked"))
    return values


def _number(value):
    return None if value is None else int.from_bytes(value, "little")


def test_a_mac_is_read_by_sysctl_alone(mac):
    assert read_system() == Memory(16 * GIB, 1230 * 16384, GIB, WARNING)
    mac["vm.page_free_count"] = struct.pack("=I", 5)
    assert read_system().available_bytes == 235 * 16384


def test_the_workers_counters_on_a_mac_use_up_no_rate(mac, monkeypatch):
    monkeypatch.setattr(memory, "footprint_bytes", lambda: 7)
    for _ in range(100):
        counters = memory.read_memory(lambda: 1, lambda: 2)
    assert counters["system_used_bytes"] == 16 * GIB - 1230 * 16384
    assert (counters["swap_used_bytes"], counters["footprint_bytes"]) == (GIB, 7)


def test_a_kernel_without_the_names_is_asked_through_psutil(mac, monkeypatch):
    del mac["vm.page_purgeable_count"]
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("V", (), {"total": 8, "available": 3}))
    monkeypatch.setattr(psutil, "swap_memory", lambda: type("S", (), {"used": 2}))
    assert read_system() == Memory(8, 3, 2)


def test_memory_is_settled_when_what_is_free_no_longer_grows():
    free = iter([GIB, 2 * GIB, 3 * GIB, 3 * GIB, 9 * GIB])
    settled = settle_memory(interval_s=0.001, read=lambda: Memory(16 * GIB, next(free), 0))
    assert settled.available_bytes == 3 * GIB
    assert next(free) == 9 * GIB


def test_memory_that_never_settles_is_not_waited_for_forever():
    free = iter(range(0, 1 << 50, GIB))
    process.settle_memory(patience_s=0.05, interval_s=0.01, read=lambda: Memory(1 << 50, next(free), 0))
    assert next(free) == 6 * GIB


def test_what_a_cells_processes_hold_is_added_up_twice_a_second(monkeypatch):
    held, at_s = {1: 5, 2: 6, 3: 7}, [0.0]
    monkeypatch.setattr(
        "speedbump.measure.need.descendants", lambda pid: [type("P", (), {"pid": 3})] if pid == 2 else []
    )
    need = Need(unified=True, read=held.get, clock=lambda: at_s[0])
    need.follow(1)
    need.look()
    need.follow(2)
    need.look()
    assert need.peak_bytes == 5
    at_s[0] = 0.5
    need.look()
    assert need.peak_bytes == 18
    held[1], at_s[0] = 0, 1.0
    need.look()
    assert need.peak_bytes == 18
    need.take({"footprint_bytes": 20, "torch_driver_bytes": 30})
    assert need.peak_bytes == 30


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux' files")
def test_a_process_holds_what_is_resident_and_what_is_swapped_out():
    own = psutil.Process()
    assert 0.5 * own.memory_info().rss < held_bytes(own.pid) < 2 * own.memory_info().rss + psutil.swap_memory().used
    assert held_bytes(1 << 22) == 0
