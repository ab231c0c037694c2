#!/usr/bin/env python3
"""Say where the allocator-pool hypothesis expects slow output lengths to begin on a Mac. Nothing is measured.

It takes a second and loads no torch. docs/mechanism.md explains the hypothesis, and where it is known to miss.
"""

import argparse
import math
import sys
from pathlib import Path

import psutil

from speedbump.grid.estimate import read_records
from speedbump.grid.listing import visible
from speedbump.grid.machine import find_machine
from speedbump.grid.models import BYTES_PER_VALUE, Model, ModelError, load_models, memory_need
from speedbump.grid.onset import GIB, KNOWN_MISSES, LARGE_BYTES, Onset, assumed_recommended, predict_onset


def main() -> int:
    args = parse_args()
    try:
        models = load_models(args.models)
        chosen = args.model or sorted(models)
        unknown = [name for name in chosen if name not in models]
        if unknown:
            raise ValueError(f"--model {unknown[0]}: not in {args.models}; known: {', '.join(sorted(models))}")
        recorded = recorded_bytes(args.runs) if args.memory_gb == own_gb() else None
        recommended = recorded or assumed_recommended(args.memory_gb * GIB)
        rows = [_row(models[name], args, recommended) for name in chosen]
    except (ModelError, ValueError) as mistake:
        print(mistake, file=sys.stderr)
        return 2
    print(f"A hypothesis, not a measurement: where slowness begins on a Mac with {args.memory_gb:g} GB,")
    print(f"prompt {args.prompt}, {args.dtype}, {args.kv_cache} cache, if it is the MPS allocator's pool that outgrows")
    print("the memory. Nobody has confirmed it.\n")
    _print_table(["model", "normal up to", "slow from", "fast again from", "needs there, GiB", "longest"], rows)
    print("\n“Fast again” is a second hypothesis: that the pool is purged at the allocator's high watermark, 1.7 times")
    print(f"the working set that Metal recommends: {recommended / GIB:.1f} GiB, {_source(recorded, args.memory_gb)}.")
    print("Known misses on the paper's figures:")
    print("\n".join(f"- {miss}" for miss in KNOWN_MISSES))
    return 0


def own_gb() -> int:
    """This machine's memory."""
    return round(psutil.virtual_memory().total / GIB)


def recorded_bytes(runs: Path) -> float | None:
    """The working set that Metal recommends on this machine, as its newest run on MPS recorded it; None without one."""
    files = [file for file in visible(runs, f"{find_machine()}/*/*.parquet") if ".mps." in file.name]
    for record in read_records(sorted(files, key=lambda file: -file.stat().st_mtime)):
        if size := record.get("environment", {}).get("mps_recommended_bytes"):
            return float(size)
    return None


def _source(recorded: float | None, memory_gb: float) -> str:
    if recorded:
        return "as a run on this machine recorded"
    share = "three quarters" if memory_gb * GIB >= LARGE_BYTES else "two thirds"
    return f"which is assumed: {share} of the memory, and no run here has recorded it"


def _row(model: Model, args: argparse.Namespace, recommended: float) -> list[str]:
    onset = predict_onset(
        model, args.dtype, args.prompt, args.memory_gb * GIB, args.kv_cache, recommended_bytes=recommended
    )
    at = onset.first_slow or onset.longest
    need = memory_need(model, args.dtype, "mps", args.prompt, at, args.kv_cache)
    return [model.name, str(onset.last_normal), *_slow(onset), f"{need / GIB:.1f}", str(onset.longest)]


def _slow(onset: Onset) -> list[str]:
    if onset.first_slow is None:
        return ["nowhere", ""]
    return [str(onset.first_slow), str(onset.recovery or "not seen")]


def _print_table(head: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    for row in (head, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells[1:]]).rstrip())


def parse_args() -> argparse.Namespace:
    memory_gb = own_gb()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", help="models of --models, by name (default: all)")
    parser.add_argument("--prompt", type=int, default=65, help="tokens put in (default 65)")
    parser.add_argument("--dtype", choices=BYTES_PER_VALUE, default="float32", help="default float32")
    parser.add_argument("--kv-cache", choices=("dynamic", "static"), default="dynamic", help="default dynamic")
    parser.add_argument(
        "--memory-gb", type=float, default=memory_gb, help=f"the Mac's memory (default: this machine's, {memory_gb})"
    )
    parser.add_argument("--models", type=Path, default=Path(__file__).parents[1] / "config" / "models")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="runs that may have recorded more")
    args = parser.parse_args()
    if args.prompt < 1 or not 0 < args.memory_gb < math.inf:
        parser.error("--prompt and --memory-gb must be above 0")
    return args


if __name__ == "__main__":
    sys.exit(main())
