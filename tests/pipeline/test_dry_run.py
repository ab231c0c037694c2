"""A dry run tells what would be done, and writes nothing."""

import pytest

pytestmark = pytest.mark.pipeline


def test_where_nothing_is_measured_yet_and_nobody_asked_which_devices_compute(fresh):
    before = fresh.tree()
    for _ in range(2):
        outcome = fresh.run("-n")
        assert outcome.status == 0, outcome.text
        assert outcome.jobs["measure_cell"] == 3
        assert "looking for devices that compute" in outcome.text
        assert fresh.tree() == before


def test_where_something_is_left_to_measure(project):
    project.edit("tests/studies/tiny.yaml", "8-24+8", "8-32+8")
    before = project.tree()
    for options in ([], ["--config", "partial=true"], ["scan"]):
        outcome = project.run("-n", *options)
        assert outcome.status == 0, outcome.text
        assert project.tree() == before
