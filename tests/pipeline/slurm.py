"""A Slurm of one node on this machine, from Debian's packages, for a test that was asked to install and start it.

It needs root, and writes its configuration where Slurm's own tools look for it: Snakemake cleans the environment of its
jobs, so that they would not see another place.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
MARK = "# Written by Speedbump's test."
SETTINGS = Path("/etc/slurm")
GPUS = ("/dev/null", "/dev/zero")
"""What stands for two GPUs: files that no job opens."""


def install() -> None:
    """Debian's packages, where they are not there yet. Raises CalledProcessError."""
    if shutil.which("slurmctld") and shutil.which("slurmd") and shutil.which("sbatch") and shutil.which("munged"):
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES], check=True, env=quiet)


def configure(folder: Path) -> None:
    """One node with all cores of this machine, two stand-in GPUs, and no accounting."""
    host = socket.gethostname().split(".")[0]
    node = subprocess.run(["slurmd", "-C"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    for name, text in {
        "gres.conf": "".join(f"Name=gpu File={gpu}\n" for gpu in GPUS),
        "slurm.conf": f"""ClusterName=test
SlurmctldHost={host}
SlurmUser=root
AuthType=auth/munge
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
MinJobAge=600
SchedulerParameters=sched_min_interval=100000
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
GresTypes=gpu
{node} Gres=gpu:{len(GPUS)}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""",
    }.items():
        file = SETTINGS / name
        if file.exists() and MARK not in file.read_text():
            raise RuntimeError(f"{file} is not of this test: Slurm is in use on this machine")
        file.write_text(f"{MARK}\n{text}")


@contextmanager
def slurm(folder: Path) -> Iterator[str]:
    """A running Slurm; gives the node's name. Everything is ended on leaving."""
    install()
    for name in ("state", "spool"):
        (folder / name).mkdir()
    configure(folder)
    runtime = Path("/run/munge")
    runtime.mkdir(mode=0o755, exist_ok=True)
    for place in (runtime, Path("/var/log/munge"), Path("/var/lib/munge"), Path("/etc/munge")):
        shutil.chown(place, "munge", "munge")
    with ExitStack() as daemons:
        for command in (
            ["setpriv", "--reuid=munge", "--regid=munge", "--init-groups", "munged", "--foreground"],
            ["slurmctld", "-D"],
            ["slurmd", "-D"],
        ):
            daemons.enter_context(_running(command, folder))
        node = subprocess.run(["slurmd", "-C"], capture_output=True, text=True, check=True).stdout.split()[0][9:]
        _wait_until_idle(node)
        yield node


@contextmanager
def _running(command: list[str], folder: Path) -> Iterator[None]:
    with (folder / "daemons.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        time.sleep(1)
        if process.poll() is not None:
            raise RuntimeError(f"{command[-2]} ended: {(folder / 'daemons.log').read_text()[-2000:]}")
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_idle(node: str, patience_s: float = 60) -> None:
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        state = subprocess.run(["sinfo", "-h", "-n", node, "-o", "%T"], capture_output=True, text=True).stdout.strip()
        if state == "idle":
            return
        time.sleep(0.5)
    raise RuntimeError(f"Slurm's node is {state or 'not known'} after {patience_s:g} s")
