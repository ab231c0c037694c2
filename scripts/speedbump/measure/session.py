"""A model that is ready, and the requests that it answers."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch

from speedbump.measure.accelerator import fault_of, open_accelerator
from speedbump.measure.cache import steps_of
from speedbump.measure.decode import Generation, Step, decode
from speedbump.measure.fixed import PREPARE, fixed_steps
from speedbump.measure.generation import generate, prepare_generate
from speedbump.measure.instrument import Instrument, prepare_instrument
from speedbump.measure.memory import Counters, read_memory
from speedbump.measure.network import build_pretrained, build_random
from speedbump.measure.profile import Capture, Profile
from speedbump.measure.prompt import make_prompt
from speedbump.measure.sentinel import time_sentinels

Answer = dict[str, Any]
"""What a request gave, as JSON: times, tokens' hash, memory, and what its instrument wrote down."""


class Session(Protocol):
    """What the worker asks for, whether the model is in its process or behind a server."""

    attention_ran: str | None

    def time_sentinels(self) -> dict[str, float]: ...
    def empty_cache(self) -> None: ...
    def answer(self, n_gen: int, phase: str) -> Answer: ...
    def close(self) -> None: ...


class LocalSession:
    """The model in this process."""

    def __init__(self, cell: dict[str, Any], model: dict[str, Any], capture: str | None = None) -> None:
        """cell: every axis and the seed.  model: ``architecture`` and ``pretrained`` of the model's file.
        capture: file of a Metal capture, without its ending.

        Raises NotImplementedError when the device does not compute, or the model has no weights of its own.
        """
        fault = fault_of(cell["device"])
        if fault:
            raise NotImplementedError(fault)
        self.cell = cell
        self.accelerator = open_accelerator(cell["device"])
        place = {"dtype": cell["dtype"], "attention": cell["attention"], "device": cell["device"]}
        if cell["weights"] == "pretrained":
            if model["pretrained"] is None:
                raise NotImplementedError("the model's file names no pretrained weights")
            self.model = build_pretrained(model["pretrained"], model["architecture"], **place)
        else:
            self.model = build_random(model["architecture"], **place, seed=cell["seed"])
        self.attention_ran: str | None = self.model.config._attn_implementation
        self.prompt = make_prompt(
            cell["seed"], cell["batch"], cell["n_prompt"], self.model.config.vocab_size, cell["device"]
        )
        self._capture = capture
        self._fixed: tuple[Any, Callable[[], Step]] | None = None

    def time_sentinels(self) -> dict[str, float]:
        """Seconds of the fixed workloads on this session's device."""
        return time_sentinels(self.accelerator)

    def empty_cache(self) -> None:
        """Give the device's unused buffers back."""
        self.accelerator.empty_cache()

    def close(self) -> None:
        """Nothing outlives the process."""

    def read_memory(self) -> Counters:
        """Every counter, now."""
        return read_memory(self.accelerator.current_bytes, self.accelerator.driver_bytes)

    def answer(self, n_gen: int, phase: str = "measured") -> Answer:
        """One request: what was timed, and what was looked at afterwards. Of a profile, warm-ups run free, and a Metal
        capture is of a further request, of which nothing else is kept.
        """
        if self.cell["instrument"] != "profile":
            return {**self.run(n_gen), **self.inspect()}
        if phase == "warmup":
            return {**self.run(n_gen, Instrument(lambda token: None)), **self.inspect()}
        with Profile(self.cell["device"]) as profile:
            ran = self.run(n_gen, Instrument(profile.observe))
        answer = {**ran, **self.inspect(), "operators": profile.operators}
        if self._capture:
            with Capture(Path(self._capture)) as capture:
                self.run(n_gen, Instrument(capture.observe))
        return answer

    @torch.inference_mode()
    def run(self, n_gen: int, instrument: Instrument | None = None) -> Answer:
        """Run one request; its times, in seconds. Start and end are on ``perf_counter``'s clock.

        instrument: in place of the cell's.
        """
        instrument = instrument or prepare_instrument(self.cell["instrument"], self.accelerator.wait, self.read_memory)
        started_at = datetime.now(UTC)
        generation = self._generate(n_gen, instrument)
        self._last = generation, instrument
        return {
            "started_at": started_at.isoformat(),
            "start_s": generation.start_s,
            "end_s": generation.start_s + generation.e2e_s,
            "ttft_s": generation.ttft_s,
            "e2e_s": generation.e2e_s,
        }

    def inspect(self) -> Answer:
        """Memory after the last request, its output, and what its instrument wrote down."""
        generation, instrument = self._last
        del self._last
        return {
            **self.read_memory(),
            **describe_output(generation),
            "step_s": _step_times(generation, instrument),
            "samples": [{"offset_s": at_s - generation.start_s, **counters} for at_s, counters in instrument.samples],
        }

    def _generate(self, n_gen: int, instrument: Instrument) -> Generation:
        if self.cell["harness"] == "generate":
            prepare_generate(self.model, self.cell["kv_cache"], n_gen)
            return generate(self.model, self.prompt, instrument.observe, self.accelerator.wait)
        return decode(self._steps(n_gen), self.prompt, n_gen, instrument.observe, self.accelerator.wait)

    def _steps(self, n_gen: int) -> Callable[[], Step]:
        """What makes a request's step; one that was compiled serves as long as the length is the same."""
        length = self.cell["n_prompt"] + n_gen - 1
        prepare = PREPARE.get(self.cell["compile"])
        if prepare is None:
            return steps_of(self.model, self.cell["kv_cache"], length)
        if self._fixed is None or self._fixed[0] != (prepare, length):
            self._fixed = (prepare, length), fixed_steps(self.model, length, prepare)
        return self._fixed[1]


def describe_output(generation: Generation) -> dict[str, Any]:
    """Hash and count of the tokens, and whether the last logits are finite."""
    ids = generation.tokens.tolist()
    return {
        "n_tokens": len(ids[0]),
        "tokens_hash": hashlib.sha256(repr(ids).encode()).hexdigest()[:16],
        "distinct_tokens": len({token for sequence in ids for token in sequence}),
        "finite": bool(torch.isfinite(generation.logits).all()),
    }


def _step_times(generation: Generation, instrument: Instrument) -> list[float] | None:
    ends_s = instrument.step_ends_s
    starts_s = [generation.start_s, *ends_s]
    return [end_s - start_s for start_s, end_s in zip(starts_s, ends_s, strict=False)] or None
