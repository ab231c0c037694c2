"""The page is valid HTML, as html-validate sees it."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

PACKAGE = "html-validate@10.17.0"


@pytest.fixture(scope="session")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with html-validate and its configuration, made for this session."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here: html-validate is not run")
    folder = tmp_path_factory.mktemp("html-validate")
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
    if subprocess.run(install, capture_output=True, check=False).returncode != 0:
        pytest.skip("npm cannot install html-validate here")
    (folder / "config.json").write_text('{"root": true, "extends": ["html-validate:standard"]}')
    return folder


@pytest.mark.parametrize("site", ["showcase", "first_look"])
def test_valid(validator: Path, site: str, request: pytest.FixtureRequest) -> None:
    page: Path = request.getfixturevalue(site) / "index.html"
    command = [validator / "node_modules" / ".bin" / "html-validate", "--config", validator / "config.json", page]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
