"""For all tests: under CI on Linux, which installs every tool, a test skipped for want of one has failed.
And a lock of their own: tests do not wait for a measurement that goes on for hours beside them.
"""

import os
import sys
import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_lock(tmp_path_factory):
    """What tests measure, here and in processes they start, is locked below a temporary folder of theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        patch.setattr(tempfile, "tempdir", None)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    strict = os.environ.get("CI") and sys.platform == "linux"
    if strict and report.skipped and not hasattr(report, "wasxfail") and not item.get_closest_marker("skipif"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr[2] if isinstance(report.longrepr, tuple) else ''}"
    return report
