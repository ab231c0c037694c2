"""The machine: hardware and memory as a slug, found without importing torch."""

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil

from speedbump.grid.cells import slug
from speedbump.grid.sysctl import read_text


def find_machine() -> str:
    """Such as ``apple-m3-max-36gb`` or ``amd-epyc-7b13-24gb_nvidia-h200``: processor, memory, GPUs if any."""
    memory_gb = round(psutil.virtual_memory().total / 2**30)
    parts = [slug(f"{_short(find_chip())} {memory_gb}gb")]
    gpus = find_gpus()
    if gpus:
        count = f"{len(gpus)}x-" if len(gpus) > 1 else ""
        parts.append(slug(f"{count}{_short(gpus[0])}"))
    return "_".join(parts)


def find_chip() -> str:
    """The processor's name as its maker writes it."""
    if platform.system() == "Darwin":
        name = _output("sysctl", "-n", "machdep.cpu.brand_string")
    else:
        try:
            text = Path("/proc/cpuinfo").read_text()
        except OSError:
            text = ""
        match = re.search(r"^(?:model name|Hardware|CPU part)\s*:\s*(.+)$", text, re.MULTILINE)
        name = match[1] if match else ""
    return name.strip() or platform.processor() or platform.machine() or "unknown"


def find_gpus() -> list[str]:
    """Names of the NVIDIA GPUs the driver shows; empty without one. An Apple GPU is part of the chip."""
    known = [
        match[1].strip()
        for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
        if (match := re.search(r"^Model:\s*(.+)$", file.read_text(), re.MULTILINE))
    ]
    if known or not Path("/dev/nvidiactl").exists():
        return known
    return [line.strip() for line in _output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()]


def possible_devices() -> dict[str, bool]:
    """For cpu, mps and cuda whether the machine has one; whether torch computes on it is another question."""
    apple = platform.system() == "Darwin" and platform.machine() == "arm64"
    return {"cpu": True, "mps": apple, "cuda": bool(find_gpus())}


def find_os() -> tuple[str, str]:
    """Name and major.minor version, such as ("macos", "14.8") or ("debian", "12")."""
    if platform.system() == "Darwin":
        return "macos", ".".join(find_os_version().split(".")[:2])
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system().lower(), ".".join(platform.release().split(".")[:2])
    return release["ID"], ".".join(release.get("VERSION_ID", "rolling").split(".")[:2])


def find_os_version() -> str:
    """Of macOS, such as "26.1.0". To a program that was built for macOS 15 or older, macOS 26 calls itself 16, and to
    one for 10.15 or older every macOS is 10.16 (python/cpython#135675); one machine would then have two stacks.
    """
    version = ""
    for version in filter(None, _os_versions()):
        if version.split(".")[0] not in ("10", "16"):
            return version
    return re.sub(r"^16\b", "26", version) or "unknown"


def _os_versions() -> Iterator[str]:
    """What macOS calls itself, the surest first."""
    yield read_text("kern.osproductversion") or ""
    yield _output("sw_vers", "-productVersion", SYSTEM_VERSION_COMPAT="0").strip()
    yield platform.mac_ver()[0]


def _short(name: str) -> str:
    """A maker's name without what every name has."""
    return re.sub(r"\((?:R|TM)\)|\bCPU\b|\bProcessor\b|@.*$|\b\d+-Core\b", " ", name)


def _output(*command: str, **variables: str) -> str:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
            env={**os.environ, "LC_ALL": "C", **variables},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
