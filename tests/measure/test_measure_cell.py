"""Cells measured as the pipeline measures them, in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest

from speedbump.measure.devices import probe_devices
from speedbump.tables import MEMORY_SAMPLES, read_table

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.model


def test_a_cell_gives_a_row_for_every_request(cell_command):
    run = cell_command().run()
    assert run.code == 0, run.stderr
    assert run.column("status") == ["ok"] * 3
    assert run.column("phase") == ["warmup", "measured", "measured"]
    assert run.column("request") == [0, 1, 2]
    assert len(set(run.column("tokens_hash"))) == 1
    assert run.column("attention_ran") == ["sdpa"] * 3
    for row in run.requests.to_dicts():
        assert row["e2e_s"] == pytest.approx(row["ttft_s"] + row["decode_s"])
        assert row["tpot_s"] == pytest.approx(row["decode_s"] / 7)
        assert row["rss_bytes"] > 50e6
        assert row["step_s"] is None


def test_the_file_says_what_was_measured_and_on_what(cell_command):
    run = cell_command(kv_cache="static").run()
    metadata = run.metadata
    assert metadata["cell"]["kv_cache"] == "static"
    assert "dtype" not in metadata["cell"], "axes at their defaults are left out"
    assert metadata["environment"]["torch"].split("+")[0].count(".") == 2
    assert metadata["environment"]["memory_bytes"] > 1e9
    assert metadata["wall_s"] > 0


def test_the_supervisor_stays_small(cell_command):
    assert cell_command().run().metadata["supervisor_peak_bytes"] < 150e6


def test_steps_are_kept_by_per_step_alone_and_fill_the_request(cell_command):
    run = cell_command(instrument="per_step").run()
    for row in run.requests.to_dicts():
        assert len(row["step_s"]) == row["n_gen"]
        assert sum(row["step_s"]) == pytest.approx(row["e2e_s"], rel=0.05)


def test_another_stack_than_the_one_named_writes_nothing(cell_command):
    run = cell_command(stack="test-0.0_torch-1.0.0_transformers-4.0.0").run()
    assert run.code != 0
    assert not run.out.exists()
    assert run.stderr.splitlines()[-1].endswith("the cell belongs to test-0.0_torch-1.0.0_transformers-4.0.0")


def test_a_persistent_process_is_warmed_up_once_and_keeps_its_order(cell_command):
    run = cell_command(n_gen=None, sequence=[12, 4, 8], lifetime="persistent", order="shuffled").run()
    assert run.column("n_gen") == [12, 12, 12, 4, 4, 8, 8]
    assert run.column("phase") == ["warmup"] + ["measured"] * 6
    assert run.requests["series"].n_unique() == 1


def test_the_gap_between_requests_is_recorded_and_can_be_a_rest(cell_command):
    gaps_s = cell_command(between_requests="rest_0.4s").run().column("gap_s")
    assert gaps_s[0] is None
    assert all(gap_s >= 0.4 for gap_s in gaps_s[1:])


def test_a_probe_that_has_seen_enough_leaves_the_rest_out(cell_command):
    probe = {"min_repeats": 2, "max_repeats": 5, "normal_below_s": 100.0, "slow_above_s": 200.0}
    run = cell_command(probe=probe).run()
    assert run.column("phase") == ["warmup", "measured", "measured"]
    undecided = {**probe, "normal_below_s": 0.0}
    assert len(cell_command(probe=undecided).run().requests) == 6


def test_memory_samples_stand_beside_a_memory_run(cell_command):
    run = cell_command(instrument="memory").run()
    samples = read_table(run.out.with_suffix(".memory.parquet"), MEMORY_SAMPLES)
    assert samples.group_by("request").len().sort("request")["len"].to_list() == [8, 8, 8]
    assert samples["n_gen"].unique().to_list() == [8]


def test_served_tokens_are_the_loops_and_latency_is_the_clients(cell_command, tmp_path):
    served = cell_command(harness="litserve").run()
    loop = cell_command(out=tmp_path / "loop.parquet").run()
    assert served.column("tokens_hash") == loop.column("tokens_hash")
    for outside_s, inside_s in zip(served.column("e2e_s"), served.metadata["served"], strict=True):
        assert outside_s > inside_s > 0


def test_nothing_but_the_worker_imports_torch():
    command = "import sys; from speedbump.measure import devices, supervisor; print('torch' in sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT / "scripts", capture_output=True, text=True, check=True
    )
    assert answer.stdout == "False\n"


def test_the_worker_needs_torch_transformers_and_psutil_alone():
    """Its modules, imported where what the supervisor needs is not there."""
    command = (
        "import sys; sys.modules.update(dict.fromkeys(['polars', 'pydantic', 'pyarrow', 'snakemake']));"
        "from speedbump.measure import served, session, stack, worker"
    )
    subprocess.run([sys.executable, "-c", command], cwd=ROOT / "scripts", check=True)


def test_devices_are_those_that_compute():
    found = probe_devices()
    assert found["cpu"]["computes"]
    for device in ("mps", "cuda"):
        assert found[device]["computes"] or found[device]["why"]
