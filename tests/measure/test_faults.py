"""Everything that can end a cell, provoked: each is a row, and what was measured before is kept."""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.model

LONG = {"model": "long", "n_gen": None, "sequence": [4, 90_000], "lifetime": "persistent", "warmups": 1, "repeats": 1}
"""A warm-up and a measured request of 4 tokens, then one that nobody waits for."""
IN_LAST = "request 3 of 3"


def assert_only_the_last_was(run, status):
    assert run.code == 0, run.stderr
    assert run.column("status") == ["ok", "ok", status]
    assert run.column("n_gen") == [4, 4, 90_000]
    assert run.column("e2e_s")[0] > 0
    assert run.column("started_at")[2] is not None


def assert_first_was(run, status):
    assert run.code == 0, run.stderr
    assert run.column("status") == [status, "not_run", "not_run"]
    assert run.column("e2e_s") == [None] * 3
    assert not any(run.column("lower_bound"))


def test_killed_by_the_system(cell_command):
    running = cell_command(**LONG).start_on_terminal()
    running.wait_for(IN_LAST)
    running.worker().kill()
    run = running.finish()
    assert_only_the_last_was(run, "killed")
    assert run.column("message")[2] == "the worker was ended by SIGKILL"
    assert not run.column("lower_bound")[2]


def test_slower_than_the_request_limit(cell_command):
    run = cell_command(request_limit_s=1.0, **LONG).run()
    assert_only_the_last_was(run, "stopped")
    assert run.column("lower_bound") == [False, False, True]
    assert run.column("e2e_s")[2] >= 1.0
    assert run.column("tpot_s")[2] is None


def test_the_memory_guard(cell_command):
    run = cell_command(limits={"guard": {"free_memory_gb": 1e6}}).run()
    assert_first_was(run, "stopped")
    assert "of memory free, the limit is 1e+06" in run.column("message")[0]


def test_out_of_memory(cell_command):
    assert_first_was(cell_command(model="vast").run(), "out_of_memory")


def stand_in_for_transformers(folder: Path, text: str) -> dict[str, str]:
    """A package of the right version that does something else when it is imported."""
    package = folder / "transformers"
    package.mkdir()
    (package / "__init__.py").write_text(f'__version__ = "{version("transformers")}"\n{text}\n')
    return {"PYTHONPATH": str(folder)}


def test_transformers_cannot_be_imported(cell_command, tmp_path):
    environment = stand_in_for_transformers(tmp_path, "raise ImportError('no such symbol in /home/jane/lib/x.so')")
    run = cell_command(environment=environment).run()
    assert_first_was(run, "import_error")
    assert run.column("message")[0] == "ImportError: no such symbol in x.so"
    log = (tmp_path / "worker.log").read_text()
    assert "ImportError: no such symbol in x.so" in log
    assert "jane" not in log
    assert str(tmp_path) not in log


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_the_disk_is_full(cell_command, tmp_path):
    environment = stand_in_for_transformers(tmp_path, "open('/dev/full', 'w').write('x' * 100000)")
    assert_first_was(cell_command(environment=environment).run(), "disk_full")


def test_the_backend_lacks_what_is_asked(cell_command):
    run = cell_command(device="mps" if sys.platform != "darwin" else "cuda").run()
    assert_first_was(run, "unsupported")
    assert "device" in run.column("message")[0]


def test_the_served_model_dies(cell_command):
    running = cell_command(harness="litserve", **LONG).start_on_terminal()
    running.wait_for(IN_LAST)
    for process in running.worker().children(recursive=True):
        process.kill()
    run = running.finish()
    assert_only_the_last_was(run, "killed")
    assert run.column("message")[2].startswith("the server died")


def test_the_result_cannot_be_written(cell_command, tmp_path):
    (tmp_path / "file").touch()
    run = cell_command(out=tmp_path / "file" / "cell.parquet").run()
    assert run.code != 0
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_supervisor_takes_its_worker_along_and_leaves_no_file(cell_command, number):
    running = cell_command(**LONG).start_on_terminal()
    running.wait_for(IN_LAST)
    worker = running.worker()
    running.process.send_signal(number)
    assert running.finish().code != 0
    psutil.wait_procs([worker], timeout=20)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
    assert list(running.out.parent.iterdir()) == []


def test_a_supervisor_whose_parent_is_killed_ends_with_its_worker(cell_command, tmp_path):
    command = cell_command(**LONG)
    caller = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", *command.arguments],
        env=command.environment,
        cwd=ROOT,
    )
    until_s = time.monotonic() + 60
    started: list[psutil.Process] = []
    while len(started) < 2 and time.monotonic() < until_s:
        started = psutil.Process(caller.pid).children(recursive=True)
        time.sleep(0.05)
    caller.kill()
    caller.wait()
    psutil.wait_procs(started, timeout=20)
    assert len(started) == 2
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in started)
    assert list(command.out.parent.iterdir()) == []


def test_two_at_once_measure_one_after_the_other(cell_command, tmp_path):
    first = cell_command(out=tmp_path / "first.parquet", between_requests="rest_0.5s").start()
    second = cell_command(out=tmp_path / "second.parquet").start()
    said = first.communicate(timeout=120)[1] + second.communicate(timeout=120)[1]
    assert said.count("waiting: another measurement holds the device") == 1
    times = []
    for out in (tmp_path / "first.parquet", tmp_path / "second.parquet"):
        from speedbump.tables import REQUESTS, read_table

        requests = read_table(out, REQUESTS)
        times.append((requests["started_at"].min(), requests["started_at"].max()))
    (early, late) = sorted(times)
    assert early[1] < late[0]


def test_no_file_names_a_user_a_host_or_a_folder(cell_command, tmp_path):
    private = {"TORCH_HOME": "/Users/jane/torch", "MTL_HUD_ENABLED": "1", "OMP_NUM_THREADS": "1"}
    run = cell_command(environment=private, instrument="memory").run()
    assert run.metadata["environment"]["variables"] == {
        "MTL_HUD_ENABLED": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_HOME": "(set)",
    }
    names = [os.uname().nodename, str(Path.home()), str(tmp_path), str(Path(sys.executable).parent), "jane"]
    for path in run.out.parent.iterdir():
        content = path.read_bytes()
        assert not [name for name in names if len(name) > 1 and name.encode() in content]


def test_a_result_that_finds_no_room_leaves_one_line_and_no_file(cell_command):
    """A limit on the size of files stands in for a full disk: the row itself cannot be written."""
    command = cell_command()
    limited = ["prlimit", "--fsize=2000", *command.arguments]
    if shutil.which("prlimit") is None:
        pytest.skip("this system has no prlimit")
    process = subprocess.run(limited, env=command.environment, capture_output=True, text=True, cwd=ROOT)
    assert process.returncode != 0
    assert process.stderr.splitlines()[-1].startswith("measure_cell: ")
    assert "Traceback" not in process.stderr
    assert list(command.out.parent.iterdir()) == []
