"""The page is valid HTML, as html-validate sees it."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

PACKAGE = "html-validate@11.21.1"


@pytest.fixture(scope="session")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """html-validate's executable, installed for this session."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here: html-validate is not run")
    folder = tmp_path_factory.mktemp("html-validate")
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    if subprocess.run(install, capture_output=True, check=False).returncode != 0:
        pytest.skip("npm cannot install html-validate here")
    return folder / "node_modules" / ".bin" / "html-validate"


@pytest.mark.parametrize("site", ["showcase", "first_look"])
def test_valid(validator: Path, site: str, request: pytest.FixtureRequest) -> None:
    page: Path = request.getfixturevalue(site) / "index.html"
    done = subprocess.run([validator, "--preset", "standard", page], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
