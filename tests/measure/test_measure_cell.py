"""Cells measured as the pipeline measures them, in processes of their own."""

import pytest

from speedbump.grid.cells import canonical

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
    assert canonical(metadata["cell"]) == canonical(metadata["cell"] | {"protocol": metadata["protocol"]})
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
    assert "but the stack is test-0.0_torch-1.0.0_transformers-4.0.0" in run.stderr.splitlines()[-1]
