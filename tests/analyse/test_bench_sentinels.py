"""What is counted of the sentinels, on made-up cells whose disturbance is known."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from bench.requests import Run, requests_table
from bench.sentinels import Agreement, Drift, Flags, agreements, busy, drifts, flags, score
from bench.sentinels_page import render_page, render_section

ROOT = Path(__file__).parents[2]
RAN = tuple((f"{name}_{when}_s", 0.03) for name in ("sentinel", "host_sentinel") for when in ("before", "after"))


def test_a_sentinel_that_slows_down_with_its_cells_agrees_with_them_and_another_does_not():
    rng = np.random.default_rng(5)
    runs = []
    for n_gen in range(32, 1025, 32):
        load = float(np.exp(rng.normal(0, 0.2)))
        sentinels = {"device": rng.normal(0, 0.01), "host": np.log(load) + rng.normal(0, 0.01)}
        changes = [
            (f"{name}_{when}_s", 0.03 * float(np.exp(sentinels[bound])))
            for bound, name in (("device", "sentinel"), ("host", "host_sentinel"))
            for when in ("before", "after")
        ]
        runs.append(Run("s", n_gen, (0.01 * n_gen * load,) * 3, changes=tuple(changes)))
    device, host = agreements(requests_table(runs))
    assert (device.bound, host.bound, host.processes) == ("device", "host", 32)
    assert host.latency_sd == pytest.approx(0.2, rel=0.4)
    assert host.correlation > 0.95
    assert abs(device.correlation) < 0.4


def test_flagged_processes_are_held_against_the_others():
    """Flagged ones lie a tenth off on either side, the others a hundredth; the trend takes a part of both."""
    runs = []
    for k, n_gen in enumerate(range(32, 1025, 32)):
        flagged = k % 4 == 0
        off = (0.1 if flagged else 0.01) * (-1) ** (k // 4 if flagged else k)
        changes = (("disturbed", "the host's sentinel took 2 times as long" if flagged else None), *RAN)
        runs.append(Run("s", n_gen, (0.01 * n_gen * float(np.exp(off)),) * 3, changes=changes))
    (found,) = flags(requests_table(runs))
    assert (found.flagged, found.others) == (8, 24)
    assert 0.03 < found.flagged_sd < 0.1
    assert found.others_sd < 0.015
    assert not list(flags(requests_table([Run("s", n, (0.01 * n,) * 3, changes=RAN) for n in range(32, 513, 32)])))
    before = [("disturbed", "other processes used 50% of the cores" if n % 64 else None) for n in range(32, 513, 32)]
    old = [Run("s", 32 * k, (0.32 * k,), changes=(*RAN[:2], one)) for k, one in enumerate(before, 1)]
    assert not list(flags(requests_table(old)))  # the host's sentinel did not run


def test_a_sentinel_that_did_not_run_says_nothing():
    runs = [Run("s", n, (0.01 * n,), changes=(("sentinel_before_s", 0.03),)) for n in range(32, 513, 32)]
    assert [found.bound for found in agreements(requests_table(runs))] == ["device"]


def test_a_sentinel_that_drifts_with_the_requests_of_a_process_goes_with_them_and_another_does_not():
    rng = np.random.default_rng(6)
    runs = []
    for process in range(1, 41):
        drift = float(np.exp(rng.normal(0, 0.2)))
        times = {"sentinel": (0.03, 0.03 * float(np.exp(rng.normal(0, 0.01)))), "host_sentinel": (0.06, 0.06 * drift)}
        changes = [
            (f"{name}_{when}_s", value)
            for name, pair in times.items()
            for when, value in zip(("before", "after"), pair, strict=True)
        ]
        runs.append(Run("s", 64, (1.0, drift**0.5, drift), process=process, changes=tuple(changes)))
    device, host = drifts(requests_table(runs))
    assert (device.bound, host.bound, host.processes) == ("device", "host", 40)
    assert host.correlation > 0.99
    assert abs(device.correlation) < 0.4
    assert host.latency_sd == pytest.approx(0.1, rel=0.4)  # of 0, half the drift and all of it


def test_one_request_has_no_drift():
    steady = (("sentinel_before_s", 0.03), ("sentinel_after_s", 0.03))
    runs = [Run("s", 64, (1.0, 1.2), changes=steady), Run("t", 8, (1.0,), changes=steady)]
    (found,) = drifts(requests_table(runs))
    assert (found.bound, found.processes) == ("device", 1)
    sd = np.log([1.0, 1.2]).std(ddof=1)
    assert (found.latency_sd, found.median_sd) == (pytest.approx(sd), pytest.approx(sd * (np.pi / 4) ** 0.5))
    assert np.isnan(found.correlation)


def test_what_each_sign_tells_is_counted_by_kind():
    def run(process: int, latency_s: float, before_s: float, after_s: float, **changes: str) -> Run:
        times = {"host_sentinel_before_s": before_s, "host_sentinel_after_s": after_s}
        fixed = {"sentinel_before_s": 0.03, "sentinel_after_s": 0.03}
        return Run("s", 64, (latency_s,), process=process, changes=tuple((times | fixed | changes).items()))

    requests = requests_table(
        [
            run(1, 1.0, 0.02, 0.02),
            run(2, 1.1, 0.02, 0.021),
            run(3, 1.0, 0.021, 0.02),
            run(4, 2.0, 0.04, 0.04, disturbed="other processes used 50% of the cores"),
            run(5, 1.9, 0.02, 0.04),
        ]
    )
    cells = requests.sort("process")["cell"].unique(maintain_order=True)
    kinds = dict(zip(cells, ["nothing", "nothing", "nothing", "load", "load"], strict=True))
    nothing, load = score(requests, kinds, "nothing")
    assert (nothing.cells, nothing.slowdown, nothing.others) == (3, 1.0, 0)
    assert nothing.drift == nothing.level == {"device": 0, "host": 0}
    assert (load.cells, load.slowdown, load.others) == (2, pytest.approx(1.95), 1)
    assert load.drift == {"device": 0, "host": 1}
    assert load.level == {"device": 0, "host": 2}
    with pytest.raises(ValueError, match=r"no request finished in s\.64\.9"):
        score(requests, {**kinds, "s.64.9": "load"}, "nothing")


def burners():
    return [child for child in psutil.Process().children() if "while True" in " ".join(child.cmdline())]


def test_a_core_is_kept_busy_from_after_the_delay_until_the_end():
    with busy(1, 0.0):
        (burner,) = burners()
        time.sleep(0.5)
        assert sum(burner.cpu_times()[:2]) > 0.05
    with busy(2, 60.0):
        assert not burners()
    assert not burners()


def test_what_is_recorded_is_replaced_without_a_new_section(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(render_page(page, render_section("b, cpu", "one", [], []), [], [], []))
    page.write_text(
        render_page(
            page,
            "",
            [("a.parquet", Agreement("host", 6, 0.1, 0.2, 0.31))],
            [("a.parquet", Flags(2, 0.3, 4, 0.4))],
            [("a.parquet", Drift("host", 5, 0.5, 0.25, -0.61))],
        )
    )
    text = page.read_text()
    assert "## b, cpu\n\none\n" in text
    assert "| a.parquet | host | 6 | 0.100 | 0.200 | 0.31 |\n" in text
    assert "| a.parquet | 2 | 0.300 | 4 | 0.400 |\n" in text
    assert "| a.parquet | host | 5 | 0.500 | 0.250 | -0.61 |\n" in text


def test_the_page_of_sentinels_holds_what_is_recorded(tmp_path):
    """As written by ``scripts/bench_sentinels.py --cells 0``."""
    page = tmp_path / "sentinels.md"
    page.write_bytes((ROOT / "docs" / "sentinels.md").read_bytes())
    script = [sys.executable, "scripts/bench_sentinels.py", "--cells", "0", "--out", page]
    subprocess.run(script, cwd=ROOT, check=True)
    assert page.read_text() == (ROOT / "docs" / "sentinels.md").read_text()


def test_a_machines_section_is_replaced_and_others_stay(tmp_path):
    page = tmp_path / "page.md"
    for place, circumstances in (("b, cpu", "one"), ("a, cuda", "two"), ("b, cpu", "three")):
        page.write_text(render_page(page, render_section(place, circumstances, [], []), [], [], []))
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## a, cuda",
        "## b, cpu",
        "## Recorded curves",
    ]
    assert "\n\none\n" not in text
    assert "\n\nthree\n" in text
