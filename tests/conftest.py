"""For all tests: under CI on Linux, which installs every tool, a test skipped for want of one has failed."""

import os
import sys

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    strict = os.environ.get("CI") and sys.platform == "linux"
    if strict and report.skipped and not hasattr(report, "wasxfail") and not item.get_closest_marker("skipif"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr[2] if isinstance(report.longrepr, tuple) else ''}"
    return report
