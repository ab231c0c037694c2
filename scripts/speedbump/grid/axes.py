"""The axes of a cell: their order, defaults and allowed values. The one place that lists them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REST = re.compile(r"rest_(\d+(?:\.\d+)?)s")
WATERMARK = re.compile(r"(high|low)_(\d+(?:\.\d+)?)")
WATERMARK_LIMITS = {"high": 2.0, "low": 1.7}
"""The largest ratios that PyTorch's MPS allocator takes: a bound of its own, and the default of the high one."""


@dataclass(frozen=True)
class Axis:
    """One axis. ``default`` is frozen once released: an axis at its default is left out of a
    cell's identity, so that a new axis changes no old id. ``values``: the allowed words; empty
    for numbers and names, whose type is ``kind``. ``late``: came after the first release, so that a
    table without the column is one of cells at the default. ``least``: of whole numbers.
    """

    name: str
    kind: type
    default: str | int | None
    meaning: str
    values: tuple[str, ...] = ()
    late: bool = False
    least: int = 1


AXES: tuple[Axis, ...] = (
    Axis("model", str, "gpt2", "a file under config/models, by its name"),
    Axis("weights", str, "random", "seeded random values, or the model's own", ("random", "pretrained")),
    Axis("device", str, None, "where the model runs", ("cpu", "mps", "cuda")),
    Axis("dtype", str, "float32", "of weights and activations", ("float32", "float16", "bfloat16")),
    Axis("attention", str, "auto", "implementation asked for", ("auto", "sdpa", "eager")),
    Axis("kv_cache", str, "dynamic", "how keys and values are kept", ("dynamic", "static", "off")),
    Axis("n_prompt", int, 65, "tokens put in"),
    Axis("n_gen", int, None, "the budget: tokens a request must generate, exactly"),
    Axis(
        "instrument",
        str,
        "free_running",
        "what is observed while a request runs",
        ("free_running", "step_sync", "per_step", "memory", "profile"),
    ),
    Axis("harness", str, "loop", "what drives the model", ("loop", "generate", "litserve")),
    Axis("lifetime", str, "fresh", "a process for one budget, or one for many", ("fresh", "persistent")),
    Axis(
        "order",
        str,
        "ascending",
        "of the budgets in a persistent process",
        ("ascending", "descending", "shuffled", "replay"),
    ),
    Axis("between_requests", str, "nothing", "nothing, empty_cache, or rest_<seconds>s"),
    Axis("batch", int, 1, "sequences decoded together"),
    Axis("process", int, 1, "number of the repeat of the whole process"),
    Axis(
        "compile",
        str,
        "none",
        "what starts a decode step in place of Python: a CUDA graph, or torch.compile's code",
        ("none", "cuda_graph", "inductor"),
        late=True,
    ),
    Axis(
        "predecessor",
        str,
        "ended",
        "the process before this one, of the same model and budget: ended, or left idle with its memory",
        ("ended", "running"),
        late=True,
    ),
    Axis("ballast_gb", int, 0, "memory that another process holds meanwhile, in GiB", late=True, least=0),
    Axis("watermark", str, "default", "of the MPS allocator: its own, or high_<ratio> or low_<ratio>", late=True),
)
DEFAULTS = {axis.name: axis.default for axis in AXES}

PROTOCOL_FIELDS = ("warmups", "repeats", "seed")
NOT_IN_SERIES = frozenset({"n_gen", "process", *PROTOCOL_FIELDS})
"""What may differ between the cells of one series."""

FREE_WHEN_PLAIN = frozenset({"model", "weights", "device", "batch", "n_prompt", "instrument", "dtype"})
"""Axes in which a plain curve may have any value."""


def unplain_axes(axes: Mapping[str, Any]) -> list[str]:
    """Axes of a series that keep it from being plain: a curve to which arms are compared has the others' defaults."""
    told = (name for name in DEFAULTS if name not in NOT_IN_SERIES | FREE_WHEN_PLAIN)
    return [name for name in told if axes.get(name, DEFAULTS[name]) != DEFAULTS[name]]
