"""Physical stories: a machine with memory, an allocator, graphs, residency, temperature; slowness follows from them.

Nothing here knows what the analysis looks for. Numbers are those of GPT-2 Medium in float32 on a Mac of 36 GB, and
every one that decides where slowness begins is drawn anew for each simulated machine.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Axes = dict[str, Any]

GB = 1e9
LONGEST = 4096
COOL = 0.7
"""Temperature at which the clock is back; while a hot device works it keeps its temperature."""
MOST_POWER = 2.2
LEAST_TOUCHED_GB = 0.08
"""What a step reads beside its cache, and has to page in when memory is short."""
VALUE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}

MECHANISMS = ("pool", "purge", "graphs", "swap", "residency", "clock", "shape", "leftover")


@dataclass(frozen=True)
class World:
    """One simulated machine.

    active: the mechanisms that work in it.  memory_gb: of the machine.  usable_gb: what programs may hold before the
    system pages.  system_gb: held by the system.  layers, hidden, weights: of the model; weights in values.
    step_s: one decode step at an empty cache; a cache of 4096 doubles it.  page_bytes_per_s: from swap.
    hoards: the allocator keeps a buffer of every size, whether or not that does harm.
    private_gb: held outside the allocator for each token of the longest request so far.
    recommended_gb: what the system tells the allocator; times 1.7 it is the high watermark.
    compile_s: of one graph; each keeps graph_gb.
    idle_s, fading_tokens: how long buffers stay wired while nothing runs, at no tokens, and the length at which that
    time has shrunk to nothing; wiring_s: of every step once they are not.
    hot_tokens, warming_s, cooling_s, throttled: the cache length whose power, which grows with its square, in the end
    brings the device to the temperature, called 1, at which its clock drops; time constants; by how much it drops.
    slow_shapes: first and last length at which a kernel is slow; shape_factor: by how much.
    request_sd, process_sd: of the logarithm.
    """

    active: frozenset[str]
    memory_gb: int = 36
    usable_gb: float = 31.0
    system_gb: float = 4.0
    layers: int = 24
    hidden: int = 1024
    weights: int = 354_823_168
    step_s: float = 0.011
    page_bytes_per_s: float = 1.2e9
    hoards: bool = False
    private_gb: float = 0.0
    recommended_gb: float = 27.0
    compile_s: float = 0.03
    graph_gb: float = 0.002
    idle_s: float = 20.0
    fading_tokens: float = 600.0
    wiring_s: float = 0.06
    hot_tokens: float = 330.0
    warming_s: float = 10.0
    cooling_s: float = 4.0
    throttled: float = 3.0
    slow_shapes: tuple[int, int] = (560, 700)
    shape_factor: float = 30.0
    request_sd: float = 0.04
    process_sd: float = 0.03


def draw_world(active: frozenset[str], rng: np.random.Generator) -> World:
    """A machine in which these mechanisms work; where slowness begins is drawn, between 400 and 600 tokens or so."""
    onset = rng.uniform(400, 600)
    short = active & {"pool", "purge", "swap", "leftover"}
    hoards = bool(active & {"pool", "purge"}) if short else bool(rng.random() < 0.5)
    unit_gb = 2 * 24 * 1024 * 4 / GB
    weights_gb = 354_823_168 * 4 / GB
    last = 65 + onset
    pool_gb = unit_gb * last * last / 2
    common: dict[str, Any] = {
        "active": active,
        "hoards": hoards,
        "step_s": rng.uniform(0.009, 0.013),
        "page_bytes_per_s": rng.uniform(0.9, 1.6) * 1e9,
        "compile_s": rng.uniform(0.02, 0.05),
        "wiring_s": rng.uniform(0.03, 0.08),
        "fading_tokens": onset + rng.uniform(0, 3),
        "hot_tokens": last / 3**0.5,
        "throttled": rng.uniform(2.5, 4),
        "shape_factor": rng.uniform(20, 40),
        "slow_shapes": (int(last) - 30, int(last) + int(rng.uniform(60, 160))),
        "request_sd": rng.uniform(0.03, 0.05),
    }
    if active & {"pool", "purge"}:
        usable = 4.0 + weights_gb + pool_gb
        recovers = 65 + min(onset + rng.uniform(100, 180), 700)
        watermark = weights_gb + unit_gb * recovers**2 / 2
        common |= {"usable_gb": usable, "memory_gb": round(usable / 0.87), "recommended_gb": watermark / 1.7}
    else:
        common |= {"memory_gb": 192, "usable_gb": 165.0, "recommended_gb": 144.0}
    if active & {"swap", "leftover"}:
        both = 2 if "leftover" in active else 1
        private = rng.uniform(0.02, 0.05)
        usable = 4.0 + both * (weights_gb + private * last + (pool_gb if hoards else 0.0))
        common |= {"private_gb": private, "usable_gb": usable, "memory_gb": round(usable / 0.87)}
        common |= {"recommended_gb": 10 * usable}
    return World(**common)


@dataclass
class Passed:
    """One request: seconds of every step, prefill first; and after each step what is held, in GB."""

    step_s: Array
    driver_gb: Array
    live_gb: Array
    resident_gb: float
    used_gb: Array
    swap_gb: Array


@dataclass
class Process:
    """A process that answers requests, from its start on; all that outlasts a request is its state."""

    world: World
    axes: Axes
    rng: np.random.Generator
    pooled: npt.NDArray[np.bool_] = field(init=False)
    keeps_buffers: bool = True
    private_gb: float = 0.0
    graphs: set[tuple[int, str]] = field(default_factory=set)
    idle_s: float | None = None
    temperature: float = 0.0
    hot: bool = False
    pace: float = 1.0

    def __post_init__(self) -> None:
        self.pooled = np.zeros(LONGEST, bool)
        self.pace = float(np.exp(self.rng.normal(0, self.world.process_sd)))
        self.temperature = float(self.rng.uniform(0.1, 0.3))

    def rest(self, seconds: float) -> None:
        """Nothing runs."""
        self.idle_s = seconds
        self.temperature *= float(np.exp(-seconds / self.world.cooling_s))
        self.hot = self.hot and self.temperature > COOL

    def empty_cache(self) -> None:
        """The allocator gives back what no tensor uses."""
        self.pooled[:] = False

    def run(self, n_gen: int) -> Passed:
        """One request of so many tokens."""
        world, axes = self.world, self.axes
        prompt = axes["n_prompt"]
        lengths = prompt + np.arange(n_gen)
        shapes = np.full(n_gen, prompt + n_gen) if axes["kv_cache"] == "static" else lengths
        step_s = world.step_s * (1 + lengths / 4096)
        if axes["kv_cache"] == "off":
            step_s = step_s * (2 + lengths / 64)
        if axes["attention"] == "eager":
            step_s = step_s * 1.1
        step_s[0] = 0.03 + 2e-4 * prompt

        cache_gb = self._cache_gb(shapes)
        held_gb = self._allocate(shapes, cache_gb)
        if axes["instrument"] == "memory":
            step_s = step_s * 1.02
        driver_gb = self._weights_gb() + held_gb
        used_gb, beyond = self._page(driver_gb, lengths)
        touched = np.maximum(cache_gb, LEAST_TOUCHED_GB) * GB
        step_s = step_s + np.where(beyond, touched / world.page_bytes_per_s, 0.0)
        if "graphs" in world.active:
            new = self._compile(shapes)
            step_s = step_s + new * world.compile_s * (2.2 if axes["attention"] == "eager" else 1.0)
        if "residency" in world.active and self._is_unwired(n_gen):
            step_s = step_s + world.wiring_s
        if "shape" in world.active:
            first, last = world.slow_shapes
            step_s = step_s * np.where((shapes >= first) & (shapes < last), world.shape_factor, 1.0)
        step_s = step_s * self.pace * np.exp(self.rng.normal(0, world.request_sd))
        step_s = step_s * np.exp(self.rng.normal(0, 0.05, n_gen))
        step_s = self._heat(step_s, lengths)
        self.idle_s = 0.0
        graph_gb = world.graph_gb * len(self.graphs)
        return Passed(
            step_s=step_s,
            driver_gb=driver_gb + graph_gb,
            live_gb=self._weights_gb() + cache_gb,
            resident_gb=1.2 + self._weights_gb() + graph_gb,
            used_gb=used_gb + graph_gb,
            swap_gb=np.maximum(used_gb - world.usable_gb, 0.0),
        )

    def sentinel_s(self) -> float:
        """The fixed workload: the clock is all that it depends on."""
        slowed = self.world.throttled if self.hot and "clock" in self.world.active else 1.0
        return 0.03 * slowed * float(np.exp(self.rng.normal(0, 0.02)))

    def _weights_gb(self) -> float:
        return self.world.weights * VALUE_BYTES[self.axes["dtype"]] / GB

    def _unit_gb(self) -> float:
        """Keys and values of one token."""
        return 2 * self.world.layers * self.world.hidden * VALUE_BYTES[self.axes["dtype"]] / GB

    def _cache_gb(self, shapes: npt.NDArray[np.int64]) -> Array:
        if self.axes["kv_cache"] == "off":
            return np.zeros(len(shapes))
        return np.asarray(self._unit_gb() * shapes, np.float64)

    def _allocate(self, shapes: npt.NDArray[np.int64], cache_gb: Array) -> Array:
        """What the allocator holds after each step: live buffers, and those it keeps."""
        if not self.world.hoards or not self.keeps_buffers or self.axes["kv_cache"] != "dynamic":
            return cache_gb
        unit = self._unit_gb()
        before = unit * float(np.flatnonzero(self.pooled).sum())
        new = ~self.pooled[shapes]
        held = before + np.cumsum(np.where(new, cache_gb, 0.0))
        limit = self._watermark_gb() - self._weights_gb()
        over = np.flatnonzero(held > limit) if "purge" in self.world.active else np.empty(0, int)
        if len(over):
            held[over[0] :] = cache_gb[over[0] :]
            self.pooled[:] = False
            self.keeps_buffers = False
        else:
            self.pooled[shapes] = True
        return np.asarray(held)

    def _watermark_gb(self) -> float:
        ratio = 1.7
        word = self.axes["watermark"]
        if word.startswith("high_"):
            ratio = float(word.removeprefix("high_"))
        return ratio * self.world.recommended_gb

    def _page(self, driver_gb: Array, lengths: npt.NDArray[np.int64]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """What the whole machine holds after each step, and whether the step has to wait for pages."""
        world = self.world
        private = np.maximum(self.private_gb, world.private_gb * lengths)
        self.private_gb = float(private[-1])
        own = driver_gb + private
        others = world.system_gb + float(self.axes["ballast_gb"])
        if self.axes["predecessor"] == "running":
            others += float(own[-1])
        total = others + own
        return total, total > world.usable_gb

    def _compile(self, shapes: npt.NDArray[np.int64]) -> Array:
        """1 for every step whose graph is new."""
        attention = self.axes["attention"]
        known = {shape for shape, kind in self.graphs if kind == attention}
        new = np.zeros(len(shapes))
        for step, shape in enumerate(shapes.tolist()):
            if shape not in known:
                known.add(shape)
                new[step] = 1.0
        self.graphs |= {(shape, attention) for shape in known}
        return new

    def _is_unwired(self, n_gen: int) -> bool:
        """Buffers stay wired the shorter, the more there are; a process that just started has wired them all."""
        if self.idle_s is None or self.axes["kv_cache"] == "off":
            return False
        return self.idle_s > self.world.idle_s * max(1 - n_gen / self.world.fading_tokens, 0.0)

    def _heat(self, step_s: Array, lengths: npt.NDArray[np.int64]) -> Array:
        """The steps, slower while the clock is down."""
        world, done = self.world, step_s.copy()
        if "clock" not in world.active:
            return done
        for first in range(0, len(step_s), 16):
            part = slice(first, first + 16)
            if self.hot:
                done[part] *= world.throttled
                continue
            power = min((float(lengths[part].mean()) / world.hot_tokens) ** 2, MOST_POWER)
            fading = float(np.exp(-float(done[part].sum()) / world.warming_s))
            self.temperature = power + (self.temperature - power) * fading
            self.hot = self.temperature > 1
        return done
