"""Whether torch and Speedbump install under the Python that runs this: 0, or 1 and one line that says why not.

make runs it before anything is installed, and by old Pythons, too: it is written for all of them.
"""

import platform
import subprocess
import sys

NEWEST_REFUSED = (3, 10)
OLDEST_MACOS = 14
"""The wheels of the torch that constraints.txt names are macosx_14_0_arm64."""


def fault(version, system, machine, ask):
    """Why not, or None. version: such as (3, 12).  ask: the value of one of macOS's sysctl names, as text."""
    if version[:2] <= NEWEST_REFUSED:
        return "Python " + ".".join(map(str, version[:2])) + " is too old: it needs 3.11 or newer"
    if system != "Darwin":
        return None
    if machine != "arm64":
        if ask("hw.optional.arm64") == "1":
            return (
                "this Python is built for Intel and runs under Rosetta: take one built for Apple silicon, "
                "such as Homebrew's /opt/homebrew/bin/python3"
            )
        return "this Mac has an Intel processor: it needs Apple silicon, as torch does"
    macos = ask("kern.osproductversion")
    if macos.split(".")[0].isdigit() and int(macos.split(".")[0]) < OLDEST_MACOS:
        return "macOS " + macos + " is too old: it needs macOS 14 or newer, as torch does"
    return None


def ask_system(name):
    """By sysctl, since Python itself says 16 for macOS 26 where it was built for an older one; empty without it."""
    try:
        return subprocess.check_output(["/usr/sbin/sysctl", "-n", name], stderr=subprocess.STDOUT).decode().strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    why = fault(sys.version_info, platform.system(), platform.machine(), ask_system)
    if why:
        sys.exit("speedbump: " + " ".join(sys.argv[1:]) + ": " + why + "; to choose another: make PYTHON=python3.12")
