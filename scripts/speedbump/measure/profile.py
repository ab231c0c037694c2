"""A request under a profiler: time by operator, and on MPS signposts; and one whose Metal calls are captured."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from speedbump.measure import mps

STEPS_AT_ONCE = 32
"""Steps whose events are kept at a time: those of a long request would fill the memory."""

CAPTURED_STEPS = range(8, 12)
"""Steps of a Metal capture, which holds what they touch: all the model's weights."""


class Profile:
    """Profiles what runs within its ``with``, if ``observe`` is called after every step.

    The profiler is stopped and started every ``STEPS_AT_ONCE`` steps, so a profiled request's times are not its own.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
        self._totals: dict[tuple[str, str], list[float]] = {}
        self._steps = 0

    @property
    def operators(self) -> list[dict[str, Any]]:
        """A row each: side (host or device), calls, and seconds in it alone on the host and on the device."""
        seen = self._device == "cuda"
        return [
            {
                "operator": name,
                "side": side,
                "calls": int(calls),
                "self_host_s": host_us / 1e6,
                "self_device_s": device_us / 1e6 if seen else None,
            }
            for (name, side), (calls, host_us, device_us) in sorted(self._totals.items())
        ]

    def __enter__(self) -> "Profile":
        if self._device == "mps":
            mps.start_signposts()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._fold()
        if self._device == "mps":
            mps.stop_signposts()

    def observe(self, token: torch.Tensor) -> None:
        """After each step. The token is read, as a host would that shows it."""
        token.tolist()
        self._steps += 1
        if self._steps % STEPS_AT_ONCE == 0:
            self._fold()
            self._start()

    def _start(self) -> None:
        self._profiler = torch.profiler.profile(activities=self._activities)
        self._profiler.start()

    def _fold(self) -> None:
        self._profiler.stop()
        for event in self._profiler.key_averages():
            side = "host" if event.device_type.name == "CPU" else "device"
            total = self._totals.setdefault((event.key, side), [0, 0.0, 0.0])
            for place, value in enumerate((event.count, event.self_cpu_time_total, event.self_device_time_total)):
                total[place] += max(0, value)


class Capture:
    """Captures the Metal calls of a few steps of what runs within its ``with``, if ``observe`` is called after each.

    In a request of its own, since a capture holds the device up.
    """

    def __init__(self, file: Path) -> None:
        """file: that the capture is wanted in, without its ending."""
        self._file = file
        self._steps = 0
        self._capturing = ExitStack()

    def __enter__(self) -> "Capture":
        return self

    def __exit__(self, *_: object) -> None:
        self._capturing.close()

    def observe(self, token: torch.Tensor) -> None:
        """After each step. The token is read, as a host would that shows it."""
        token.tolist()
        if self._steps == CAPTURED_STEPS.start and mps.can_capture():
            self._begin()
        elif self._steps == CAPTURED_STEPS.stop:
            self._capturing.close()
        self._steps += 1

    def _begin(self) -> None:
        """PyTorch puts a number before the name, so it can only lie in the current folder."""
        before = Path.cwd()
        try:
            os.chdir(self._file.parent)
            self._capturing.enter_context(mps.capture(self._file.name))
        except RuntimeError as error:
            print(f"no Metal capture: {error}", file=sys.stderr)
        finally:
            os.chdir(before)
