"""Power and heat, as far as the system tells without root, and a hold on sleep."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

THERMAL_LEVELS = ("nominal", "moderate", "heavy", "trapping", "sleeping")
"""``OSThermalPressureLevel`` of macOS's <libkern/OSThermalNotification.h>, in order."""
SERIOUS = THERMAL_LEVELS[2:]


@dataclass(frozen=True)
class Power:
    """source: mains or battery.  low_power_mode, thermal: macOS only. None where the system does not say."""

    source: str | None
    low_power_mode: bool | None
    thermal: str | None


def read_power() -> Power:
    """Power and heat now."""
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    source = None if battery is None or battery.power_plugged is None else _source(battery.power_plugged)
    if sys.platform != "darwin":
        return Power(source, None, None)
    return Power(
        source,
        parse_low_power_mode(_ask("pmset", "-g")),
        parse_thermal(_ask("notifyutil", "-g", "com.apple.system.thermalpressurelevel")),
    )


def parse_low_power_mode(text: str) -> bool | None:
    """From ``pmset -g``, which lists the settings in use, one a line."""
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] in ("lowpowermode", "powermode"):
            return words[1] == "1"
    return None


def parse_thermal(text: str) -> str | None:
    """From ``notifyutil -g``: the key and the level's number."""
    words = text.split()
    level = int(words[-1]) if words and words[-1].isdigit() else -1
    return THERMAL_LEVELS[level] if 0 <= level < len(THERMAL_LEVELS) else None


def wait_until_cool(
    notice: Callable[[str], None], patience_s: float = 600, read: Callable[[], Power] = read_power
) -> None:
    """Return when thermal pressure is not serious, or after ``patience_s``. Says once that it waits."""
    until_s = time.monotonic() + patience_s
    waiting = False
    while (power := read()).thermal in SERIOUS and time.monotonic() < until_s:
        if not waiting:
            notice(f"waiting: thermal pressure is {power.thermal}")
            waiting = True
        time.sleep(min(5.0, patience_s / 10))


def hold_off_sleep() -> "subprocess.Popen[bytes] | None":
    """Keep macOS from sleeping as long as this process lives, however that ends; its display may go dark.

    Returns the holder, or None on another system.
    """
    if sys.platform != "darwin" or not shutil.which("caffeinate"):
        return None
    return subprocess.Popen(["caffeinate", "-ims", "-w", str(os.getpid())])


@contextmanager
def stay_awake() -> Iterator[None]:
    """The same within the ``with``."""
    holder = hold_off_sleep()
    try:
        yield
    finally:
        if holder:
            holder.terminate()
            holder.wait()


def _source(plugged: bool) -> str:
    return "mains" if plugged else "battery"


def _ask(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
