"""What the pipeline costs when nothing is to do: CPU seconds of a no-op run over many cells.

Beside it the same count of ``touch`` jobs in a Snakefile of ten lines: what Snakemake itself takes.
Run files hold simulated requests; nothing is measured.
usage: python scripts/bench_pipeline.py [--cells 1000]
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from speedbump.grid.cells import axes_of, canonical, cell_id, series_id
from speedbump.grid.machine import find_machine
from speedbump.grid.stack import find_stack
from speedbump.tables import REQUESTS, write_table

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "rules", "scripts", "config", "reports", "profiles")
TOUCH = """
rule all:
    input: "all.txt"
rule cell:
    output: "cells/{{n}}"
    shell: "touch {{output}}"
rule join:
    input: expand("cells/{{n}}", n=range({cells}))
    output: "all.txt"
    shell: "touch {{output}}"
"""


def make_study(root: Path, cells: int) -> None:
    """A project whose study has so many cells, all of them with a run file of simulated requests."""
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
        copy(ROOT / part, root / part)
    models = "[distilgpt2, gpt2, gpt2-medium, gpt2-large, opt-350m]"
    prompts = list(range(5, 5 + -(-cells // 1000)))
    step = 1 if len(prompts) == 1 else 8
    last = step * cells // (10 * len(prompts))
    (root / "config" / "many.yaml").write_text(
        f"study: many\ntitle: Many cells\nprotocol: {{warmups: 1, repeats: 2}}\nexperiments:\n"
        f"  - {{name: many, model: {models}, device: cpu, kv_cache: [dynamic, 'off'], n_prompt: {prompts}, "
        f"n_gen: {step}-{last}+{step}}}\n"
    )


def simulate_runs(root: Path) -> int:
    """Write the run files that the project's own list of work names."""
    machine, stack = find_machine(), find_stack()
    work = json.loads((root / "results/studies/many/lists/work.json").read_text())
    for entry in work:
        cell = entry["cell"]
        axes = axes_of(cell)
        step = 0.01 if axes["kv_cache"] == "dynamic" else 0.01 + 0.0001 * axes["n_gen"]
        rows = [
            {
                **dict.fromkeys(REQUESTS.schema),
                **axes,
                "series": series_id(cell, machine, stack),
                "cell": cell_id(cell),
                "machine": machine,
                "stack": stack,
                **{key: cell[key] for key in ("warmups", "repeats", "seed")},
                "request": request,
                "phase": "measured" if request else "warmup",
                "status": "ok",
                "lower_bound": False,
                "ttft_s": step,
                "e2e_s": step * axes["n_gen"] * (1 + 0.001 * request),
                "started_at": datetime(2026, 1, 1, tzinfo=UTC),
            }
            for request in range(3)
        ]
        record = {
            "cell": json.loads(canonical(cell)),
            "machine": machine,
            "stack": stack,
            "environment": {},
            "wall_s": 1.0,
        }
        table = pl.DataFrame(rows, schema=REQUESTS.schema)
        write_table(table, REQUESTS, root / entry["file"], {"speedbump": json.dumps(record)})
    return len(work)


def cpu_seconds(root: Path, *arguments: str) -> float:
    """CPU seconds of Snakemake and all that it starts. Raises CalledProcessError with its output shown."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study, touch = Path(folder, "study"), Path(folder, "touch")
        study.mkdir()
        make_study(study, args.cells)
        options = ("--configfile", "config/many.yaml")
        cpu_seconds(study, "-n", *options)
        cells = simulate_runs(study)
        print(f"first_run_after_measuring {cpu_seconds(study, *options):.1f} CPU s ({cells} cells)")
        touch.mkdir()
        (touch / "Snakefile").write_text(TOUCH.format(cells=cells))
        cpu_seconds(touch, "--scheduler", "greedy")
        ours, plain = [], []
        for _ in range(3):
            ours.append(cpu_seconds(study, *options))
            plain.append(cpu_seconds(touch, "--scheduler", "greedy"))
        pairs = sorted(a / b for a, b in zip(ours, plain, strict=True))
        print(f"no_op {sorted(ours)[1]:.1f} CPU s")
        print(f"no_op_of_touch_jobs {sorted(plain)[1]:.1f} CPU s")
        print(f"no_op_ratio {pairs[1]:.2f} (of three pairs: {pairs[0]:.2f} to {pairs[2]:.2f})")


if __name__ == "__main__":
    main()
