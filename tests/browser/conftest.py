"""A real browser, offline, and the sites it opens."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import simulated
from building import REFERENCE, build, run_script
from playwright.sync_api import Browser, sync_playwright
from simulated import simulate

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def showcase(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with every section."""
    folder = simulate(tmp_path_factory.mktemp("showcase"), simulated.showcase(), workload=True)
    (folder / "workload.csv").write_text("n_prompt,n_gen,count\n65,128,900\n65,448,50\n65,600,70\n65,2000,4\n65,?,1\n")
    run_script("check_claims.py", folder, "--reference", REFERENCE, "--out", folder / "claims.parquet")
    run_script("judge_hypotheses.py", folder, "--out", folder)
    return build(folder)


@pytest.fixture(scope="session")
def first_look(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with one smooth curve and the published one."""
    folder = tmp_path_factory.mktemp("first")
    return build(simulate(folder, simulated.first_look(), compare_with_paper=True, partial=True))
