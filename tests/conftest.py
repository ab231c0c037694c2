"""For all tests: under CI on Linux, which installs every tool, a test skipped for want of one has failed.
And a lock of their own: tests do not wait for a measurement that goes on for hours beside them.
"""

import os
import shutil
import sys
import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_lock():
    """What tests measure, here and in processes they start, is locked below a temporary folder of theirs. Its path is
    short: LitServe keeps a socket there, whose path may have 103 bytes on macOS, and pytest's folders have 90.
    """
    folder = tempfile.mkdtemp(dir="/tmp", prefix="sb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", None)
        yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    strict = os.environ.get("CI") and sys.platform == "linux"
    if strict and report.skipped and not hasattr(report, "wasxfail") and not item.get_closest_marker("skipif"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr[2] if isinstance(report.longrepr, tuple) else ''}"
    return report
