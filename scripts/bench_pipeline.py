"""What the pipeline itself costs, by the number of cells: CPU seconds and memory of each of its steps.

Run files hold simulated requests of smooth curves, a hundred lengths each; nothing is measured. Beside a run with
nothing to do stands the same count of ``touch`` jobs in a Snakefile of ten lines: what Snakemake itself takes.
Writes docs/scale.md.
usage: python scripts/bench_pipeline.py [--cells 1000 10000] [--planned 50000]
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import yaml

from speedbump.grid.cells import Cell, axes_of, canonical, cell_id, series_id
from speedbump.grid.expansion import expand_study
from speedbump.grid.machine import find_chip, find_machine
from speedbump.grid.models import load_models
from speedbump.grid.stack import find_stack
from speedbump.grid.study import read_study
from speedbump.measure.environment import describe_machine
from speedbump.tables import REQUESTS, write_table

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "rules", "scripts", "config", "reports", "profiles")
STUDY = "config/many.yaml"
RECORDED = 1000
"""Cells up to which Snakemake is made to record every job, as when it runs them: for many that takes minutes."""
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


STEPS = {
    "planned": "planning, nothing measured (`snakemake -n`)",
    "one_cell": "planning one cell of them, as each job of a cluster does",
    "collect_requests": "collecting, each run verified",
    "segment_regimes": "finding regimes",
    "compare_series": "comparing curves",
    "compare_stacks": "comparing stacks",
    "check_claims": "checking claims",
    "judge_hypotheses": "judging hypotheses",
    "draw_charts": "drawing",
    "build_site": "building the site",
    "no_op": "a run with nothing to do",
    "recorded": "the same with Snakemake's own record of every job",
    "touch": "the same of as many `touch` jobs",
}


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a command and all that it started, and the most memory that one process of it had."""

    cpu_s: float
    peak_mb: float


def make_study(root: Path, cells: int) -> None:
    """A project with a study of so many cells, a multiple of 1,000: ten curves of a hundred lengths for each prompt."""
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
        copy(ROOT / part, root / part)
    prompts = list(range(5, 5 + cells // 1000))
    models = "[distilgpt2, gpt2, gpt2-medium, gpt2-large, opt-350m]"
    (root / STUDY).write_text(
        "study: many\ntitle: Many cells\nprotocol: {warmups: 1, repeats: 2}\nexperiments:\n"
        f"  - {{name: many, model: {models}, device: cpu, kv_cache: [dynamic, 'off'], n_prompt: {prompts}, "
        "n_gen: 8-800+8}\n"
    )


def simulate_runs(root: Path) -> None:
    """Write the run file of every cell of the study."""
    machine, stack, environment = find_machine(), find_stack(), describe_machine()
    for cell, run in zip(cells_of(root), run_files(root), strict=True):
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
            "environment": environment,
            "wall_s": 1.0,
        }
        table = pl.DataFrame(rows, schema=REQUESTS.schema)
        write_table(table, REQUESTS, run, {"speedbump": json.dumps(record)})


def cost(root: Path, *command: str) -> tuple[Cost, str]:
    """What a command cost, and what it printed. Ends the benchmark with that when it fails."""
    with tempfile.TemporaryFile("w+") as output:
        started = subprocess.Popen(command, cwd=root, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(started.pid, 0)
        output.seek(0)
        text = output.read()
    if status:
        sys.exit(f"{' '.join(command)[:300]}\n{text[-3000:]}")
    per_mb = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / per_mb), text


def snakemake(root: Path, *arguments: str) -> tuple[Cost, str]:
    return cost(root, sys.executable, "-m", "snakemake", "--cores", "1", "--scheduler", "greedy", *arguments)


def measure_study(study: Path, cells: int) -> dict[str, Cost]:
    """The cost of every step of a study of so many cells, by its key in STEPS."""
    costs = plan_study(study, cells)
    simulate_runs(study)
    return costs | run_study(study, cells)


def run_study(study: Path, cells: int) -> dict[str, Cost]:
    """The cost of every step when all is measured."""
    costs = {}
    chosen = ("--configfile", STUDY)
    listed = study / "results" / "studies" / "many" / "lists" / "collect_requests.json"  # which a dry run leaves out
    listed.parent.mkdir(parents=True)
    runs = [str(run.relative_to(study)) for run in run_files(study)]
    listed.write_text(json.dumps({"experiments": {"many": runs}, "other_stacks": []}))
    _, text = snakemake(study, "-n", "-p", "--quiet", "host", *chosen)
    (study / "results" / "studies" / "many" / "logs").mkdir(parents=True)
    for rule, command in re.findall(r"^rule (\w+):$.*?^Shell command: (.*?)$", text, re.MULTILINE | re.DOTALL):
        if command != "None":
            costs[rule], _ = cost(study, "env", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "bash", "-c", command)
    costs["no_op"], text = snakemake(study, *chosen)
    assert "Nothing to be done" in text, text
    if cells <= RECORDED:
        snakemake(study, "--touch", "--forceall", *chosen)
        costs["recorded"], text = snakemake(study, *chosen)
        assert "Nothing to be done" in text, text
    touch = study / "touch"
    (touch / "cells").mkdir(parents=True)
    (touch / "Snakefile").write_text(TOUCH.format(cells=cells))
    for name in (*(f"cells/{n}" for n in range(cells)), "all.txt"):
        (touch / name).touch()
    costs["touch"], text = snakemake(touch)
    assert "Nothing to be done" in text, text
    return costs


def plan_study(study: Path, cells: int) -> dict[str, Cost]:
    """The cost of planning a study of which nothing is measured."""
    study.mkdir()
    make_study(study, cells)
    cost(study, sys.executable, "scripts/probe_devices.py")
    costs = {"planned": snakemake(study, "-n", "--configfile", STUDY)[0]}
    asked = run_files(study)[0]
    costs["one_cell"], text = snakemake(study, "-n", "--configfile", STUDY, "--", str(asked.relative_to(study)))
    assert "measure_cell" in text, text
    return costs


def cells_of(root: Path) -> list[Cell]:
    """Every cell of the study."""
    file, models = root / STUDY, load_models(root / "config" / "models")
    study = read_study(yaml.safe_load(file.read_text()), file.name)
    return expand_study(study, file.name, models, lambda: {"cpu": True}).cells["many"]


def run_files(root: Path) -> list[Path]:
    """The run file of every cell."""
    folder = root / "results" / "runs" / find_machine() / find_stack()
    return [folder / f"{cell_id(cell)}.parquet" for cell in cells_of(root)]


def page(found: dict[int, dict[str, Cost]], load: float) -> str:
    """docs/scale.md."""
    sizes = sorted(found)
    measured = [cells for cells in sizes if "no_op" in found[cells]]
    lines = [
        "# What many cells cost",
        "",
        "Written by `scripts/bench_pipeline.py`: CPU seconds, and the most memory that one process of a step had.",
        "Growth is the exponent between the two largest sizes measured: 1 is linear. An empty place was not measured.",
        "Run files hold simulated requests, so that nothing waits for a measurement.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {find_chip()}, {os.cpu_count()} cores, load average {load:.1f} at the start",
        "(0 is a machine to itself); Snakemake's own start is in each of its figures.",
        "",
        "| step | " + " | ".join(f"{cells:,} cells" for cells in sizes) + " | growth |",
        "|---|" + "---:|" * (len(sizes) + 1),
    ]
    for key, title in STEPS.items():
        costs = {cells: found[cells][key] for cells in sizes if key in found[cells]}
        places = [f"{costs[n].cpu_s:.1f} s, {costs[n].peak_mb:.0f} MB" if n in costs else "" for n in sizes]
        lines.append(f"| {title} | {' | '.join(places)} | {growth(costs)} |")
    of_analysis = [key for key in STEPS if key not in ("planned", "one_cell", "no_op", "recorded", "touch")]
    total = {cells: sum(found[cells][key].cpu_s for key in of_analysis if key in found[cells]) for cells in measured}
    lines += [
        "",
        "All tables, charts and the page: " + ", ".join(f"{s:.0f} s at {n:,}" for n, s in total.items()) + ".",
    ]
    if len(measured) > 1:
        lines += ["", *limits(found, *measured[-2:])]
    return "\n".join(lines) + "\n"


def limits(found: dict[int, dict[str, Cost]], small: int, large: int) -> list[str]:
    """How far what was measured reaches, on the straight line through two sizes; on paper, beyond the larger one."""

    def at(key: str, quantity: str, cells: int) -> float:
        low, high = (float(getattr(found[n][key], quantity)) for n in (small, large))
        return low + (cells - small) * (high - low) / (large - small)

    def reached(key: str, quantity: str, limit: float) -> str:
        return f"{next(cells for cells in range(0, 10**7, 1000) if at(key, quantity, cells) >= limit):,}"

    more_s = found[large]["one_cell"].cpu_s - found[small]["one_cell"].cpu_s
    return [
        "On the straight line through these two sizes, which is paper beyond the larger:",
        "",
        f"- with 50,000 cells a run with nothing to do takes {at('no_op', 'cpu_s', 50_000):.0f} CPU s, and collecting "
        f"{at('collect_requests', 'cpu_s', 50_000):.0f} and {at('collect_requests', 'peak_mb', 50_000) / 1000:.1f} GB,",
        f"- a run with nothing to do takes 30 CPU s at {reached('no_op', 'cpu_s', 30)} cells,",
        f"- collecting takes 30 CPU s at {reached('collect_requests', 'cpu_s', 30)} cells, and 2 GB at "
        f"{reached('collect_requests', 'peak_mb', 2000)}: from there on tables want to be partitioned by series,",
        f"- planning its own cell costs a cluster's job {more_s:.1f} CPU s more at {large:,} than at {small:,} cells,",
        "  twice a job: where that nears the time of a cell, several cells belong in a job",
        "  (`--group-components cells=10`, [cluster.md](cluster.md)), or the study into several.",
    ]


def growth(costs: dict[int, Cost]) -> str:
    """Exponent of the CPU time between the two largest sizes."""
    if len(costs) < 2:
        return ""
    small, large = sorted(costs)[-2:]
    return f"{math.log(costs[large].cpu_s / costs[small].cpu_s) / math.log(large / small):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, nargs="+", default=[1000, 10_000], help="multiples of 1,000")
    parser.add_argument(
        "--planned", type=int, nargs="*", default=[50_000], help="sizes of which only the planning runs"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "scale.md", metavar="FILE", help="the page")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    found = {}
    for cells in [*args.cells, *args.planned]:
        with tempfile.TemporaryDirectory() as folder:
            make = measure_study if cells in args.cells else plan_study
            found[cells] = make(Path(folder, "study"), cells)
            for key, step in found[cells].items():
                print(f"{cells} {key} {step.cpu_s:.1f} CPU s, {step.peak_mb:.0f} MB", flush=True)
    args.out.write_text(page(found, load))


if __name__ == "__main__":
    main()
