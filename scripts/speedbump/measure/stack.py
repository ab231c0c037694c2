"""What the worker runs on: versions, and the settings that can change its speed."""

import os
import platform
from typing import Any

import psutil
import torch
import transformers

from speedbump.measure.accelerator import open_accelerator

_PREFIXES = ("PYTORCH_", "TORCH_", "MPS_", "MPSGRAPH_", "CUDA_", "OMP_", "MKL_", "KMP_", "ATEN_", "METAL_", "MTL_")


def describe_stack(device: str) -> dict[str, Any]:
    """Versions, threads and environment variables; no name of a user, a host or a folder."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_git": torch.version.git_version,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "psutil": psutil.__version__,
        "variables": describe_variables(dict(os.environ)),
    }
    if device == "cuda" and torch.cuda.is_available():
        found |= {"cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name(0)}
    if device == "mps" and open_accelerator(device).is_available():
        found["mps_recommended_bytes"] = open_accelerator(device).limit_bytes()
    return found


def describe_variables(environment: dict[str, str]) -> dict[str, str]:
    """Variables of torch and its libraries, by their prefixes. What looks like a path or a device's id is not told."""
    kept = {key: value for key, value in environment.items() if key.startswith(_PREFIXES)}
    return {
        key: "(set)" if any(mark in value for mark in ("/", "\\", "~", "GPU-", "MIG-")) else value
        for key, value in sorted(kept.items())
    }
