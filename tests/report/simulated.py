"""Simulated study folders, exactly to the tables' contract. Nothing in them was measured.

The verdicts are known by construction, so that the report's sentences can be checked without segmentation.
Run it to look at a report: ``python tests/report/simulated.py FOLDER [showcase|first_look|large|empty]``.
"""

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from speedbump.analyse.changes.compare import compare_places
from speedbump.analyse.comparisons import compare_series
from speedbump.grid.axes import AXES
from speedbump.grid.cells import axes_of, cell_id, series_id
from speedbump.report.summary import RATE
from speedbump.tables import (
    BUDGET_CHANGES,
    BUDGETS,
    CELLS,
    COMPARISONS,
    FAULTS,
    MEMORY_SAMPLES,
    REGIME_CHANGES,
    REGIMES,
    REQUESTS,
    SERIES,
    SERIES_CHANGES,
    Table,
    read_table,
    write_table,
)

MACHINE, STACK = "simulated-36gb", "macos-14.8_torch-2.8.0_transformers-4.57.6"
GRID = tuple(range(128, 769, 128))
START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Slow:
    """A slow run of lengths. ``accepted`` false: looks slow, evidence too weak."""

    first: int
    last: int
    slowdown: float
    accepted: bool = True
    confirmed: bool = False
    kind: str = "regime"


@dataclass(frozen=True)
class Line:
    """One simulated curve."""

    model: str = "gpt2-medium"
    device: str = "mps"
    axes: dict[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = GRID
    slow: tuple[Slow, ...] = ()
    verdict: str | None = None
    reason: str | None = None
    next: str | None = None
    failed: dict[int, str] = field(default_factory=dict)
    """Lengths whose cell failed, with the status."""
    stopped: dict[int, float] = field(default_factory=dict)
    """Lengths at which nothing finished, with the longest time seen."""
    per_token_s: float = 0.0125
    repeats: int = 5
    disturbed: dict[int, str] = field(default_factory=dict)
    """Lengths whose cell is flagged, with the reason."""
    busy: bool = False
    levels: str | None = None
    stopped_from: int | None = None
    rate: dict[str, float] = field(default_factory=dict)
    """Columns of the series that say how its rate changes; the latencies do not show it."""
    machine: str = MACHINE
    stack: str = STACK


def simulate(
    folder: Path, lines: list[Line], seed: int = 1, environment: dict[str, Any] | None = None, **about: Any
) -> Path:
    """Write every input of the report into ``folder`` and return it. ``about`` goes into study.json."""
    rng = np.random.default_rng(seed)
    tables: dict[str, list[dict[str, Any]]] = {
        table.name: [] for table in (REQUESTS, CELLS, FAULTS, BUDGETS, SERIES, REGIMES)
    }
    for line in lines:
        _simulate_line(line, tables, rng)
    for row in tables["cells"]:
        if row["outcome"] == "failed":
            problem = {"file": f"results/runs/{row['cell']}.parquet", "cell": row["cell"], "problem": "unreadable"}
            tables["faults"].append({**problem, "message": "the file ends early"})
            break
    for table in (REQUESTS, CELLS, FAULTS, BUDGETS, SERIES, REGIMES):
        _write(table, tables[table.name], folder / f"{table.name}.parquet")
    _write(MEMORY_SAMPLES, [], folder / "memory_samples.parquet")
    requests, series, budgets = (read_table(folder / f"{t.name}.parquet", t) for t in (REQUESTS, SERIES, BUDGETS))
    changes = compare_places(requests)
    for frame, table in (
        (changes.series, SERIES_CHANGES),
        (changes.regimes, REGIME_CHANGES),
        (changes.budgets, BUDGET_CHANGES),
    ):
        write_table(frame, table, folder / f"{table.name}.parquet")
    write_table(compare_series(requests, series, budgets), COMPARISONS, folder / "comparisons.parquet")
    places = sorted({(line.machine, line.stack) for line in lines})
    environments = [
        {"machine": machine, "stack": stack, "environment": {**_environment(stack), **(environment or {})}}
        for machine, stack in places
    ]
    done = sum(row["outcome"] != "missing" for row in tables["cells"])
    study = {
        "name": "simulated",
        "title": "Simulated curves",
        "description": "Simulated numbers for tests. Nothing here was measured.",
        "partial": False,
        "next_command": None,
        "next_hours": None,
        "runs": {"planned": done, "done": done},
        "protocol": {"warmups": 3, "repeats": 5, "seed": 1, "request_limit_s": 600},
        "compare_with_paper": False,
        "model_titles": {
            "gpt2-medium": "GPT-2 Medium",
            "gpt2-large": "GPT-2 Large",
            "gpt2": "GPT-2",
            "distilgpt2": "DistilGPT-2",
            "opt-350m": "OPT-350M",
            "bloom-560m": "BLOOM-560M",
        },
        **about,
    }
    (folder / "study.json").write_text(json.dumps(study, indent=1), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps(environments, indent=1), encoding="utf-8")
    return folder


def _simulate_line(line: Line, tables: dict[str, list[dict[str, Any]]], rng: np.random.Generator) -> None:
    budgets = []
    for n_gen in line.grid:
        cell = {"model": line.model, "device": line.device, **line.axes, "n_gen": n_gen}
        cell |= {"warmups": 3, "repeats": line.repeats, "seed": 1}
        series = series_id(cell, line.machine, line.stack)
        regime = next((r for r in line.slow if r.first <= n_gen <= r.last), None)
        off = cell.get("kv_cache") == "off"
        trend = line.per_token_s * n_gen * (0.9 + n_gen / (900 if not off else 60))
        factor = regime.slowdown if regime else 1.0
        noise = 0.06 if regime else 0.01
        latencies = trend * factor * np.exp(rng.normal(0, noise, line.repeats))
        place = {"series": series, "cell": cell_id(cell), "machine": line.machine, "stack": line.stack}
        status = line.failed.get(n_gen, "stopped" if n_gen in line.stopped else "ok")
        budget = _simulate_cell(line, cell, place, status, latencies, tables, rng)
        if budget is not None:
            state = "slow" if regime and regime.accepted else "unclear" if regime else "normal"
            has_trend = line.verdict not in ("undetermined",)
            budgets.append(
                {
                    **budget,
                    "series": series,
                    "n_gen": n_gen,
                    "expected_s": trend if has_trend else None,
                    "expected_low_s": trend * 0.94 if has_trend else None,
                    "expected_high_s": trend * 1.06 if has_trend else None,
                    "slowdown": budget["latency_s"] / trend if has_trend else None,
                    "p_slow": {"slow": 0.999, "unclear": 0.5, "normal": 0.001}[state],
                    "state": state,
                    "unstable": False,
                    "noticed": 1.5 if state == "normal" else None,
                    "called": 1.8 if state == "normal" else None,
                }
            )
    tables["budgets"] += budgets
    _simulate_verdict(line, series, budgets, tables)


def _simulate_cell(
    line: Line,
    cell: dict[str, Any],
    place: dict[str, Any],
    status: str,
    latencies: np.ndarray,
    tables: dict[str, list[dict[str, Any]]],
    rng: np.random.Generator,
) -> dict[str, Any] | None:
    """Add the cell's requests and summary; return what the budgets table needs, or None without a measurement."""
    n_gen, axes = cell["n_gen"], axes_of(cell)
    if status == "missing":
        return None
    message = {
        "out_of_memory": "MPS backend out of memory (simulated)",
        "unsupported": "no sdpa path for this model (simulated)",
        "stopped": "stopped by the request limit (simulated)",
    }.get(status, None if status == "ok" else f"{status} (simulated)")
    started = START + timedelta(seconds=len(tables["requests"]))
    memory = {
        "torch_current_bytes": int(1.4e9 + n_gen * 2e5) if line.device != "cpu" else None,
        "torch_driver_bytes": int(2e9 + n_gen**2 * 9e4) if line.device != "cpu" else None,
        "rss_bytes": int(2.1e9 + n_gen * 1e6),
        "footprint_bytes": int(3e9 + n_gen**2 * 5e4) if "macos" in line.stack else None,
        "system_used_bytes": int(min(33e9, 9e9 + n_gen * 4.5e7)),
        "swap_used_bytes": 0,
    }
    common = {**place, **axes, "warmups": 3, "repeats": line.repeats, "seed": 1, "attention_ran": "sdpa"}
    finished = list(latencies) if status == "ok" else []
    seen = finished or ([line.stopped[n_gen]] if status == "stopped" else [float("nan")])
    prefill = 0.03 + 0.0004 * axes["n_prompt"]
    for index, latency in enumerate(seen):
        ok = status == "ok"
        decode = latency - prefill if ok else None
        steps = None
        if axes["instrument"] == "per_step" and ok and n_gen > 1:
            shape = np.linspace(0.5, 1.5, n_gen - 1)
            steps = [prefill, *(shape / shape.sum() * decode * np.exp(rng.normal(0, 0.05, n_gen - 1)))]
        tables["requests"].append(
            {
                **common,
                "request": index + 3,
                "phase": "measured",
                "status": status,
                "lower_bound": status == "stopped",
                "message": message,
                "ttft_s": prefill if ok else None,
                "decode_s": decode,
                "e2e_s": latency if status in ("ok", "stopped") else None,
                "tpot_s": decode / (n_gen - 1) if decode and n_gen > 1 else None,
                "gap_s": 0.5 if index else None,
                "tokens_hash": "0" * 16 if ok else None,
                "distinct_tokens": 40 if ok else None,
                "finite": True if ok else None,
                **memory,
                "sentinel_before_s": 0.03,
                "sentinel_after_s": 0.0302,
                "disturbed": line.disturbed.get(n_gen),
                "started_at": started + timedelta(seconds=index),
                "step_s": steps,
            }
        )
    low, high = _interval(finished)
    bound = line.stopped.get(n_gen) if status == "stopped" else None
    median = float(np.median(finished)) if finished else bound
    tables["cells"].append(
        {
            **place,
            **axes,
            "attention_ran": "sdpa",
            "outcome": status,
            "message": message,
            "n_warmup": 3 if finished else 0,
            "n_measured": len(finished),
            "e2e_median_s": median,
            "e2e_mean_s": float(np.mean(finished)) if finished else None,
            "e2e_low_s": low,
            "e2e_high_s": high,
            "e2e_sd_s": float(np.std(finished, ddof=1)) if len(finished) > 1 else None,
            "e2e_p95_s": float(np.quantile(finished, 0.95)) if finished else None,
            "lower_bound": bound is not None,
            "ttft_median_s": prefill if finished else None,
            "decode_median_s": median - prefill if finished else None,
            "tpot_median_s": (median - prefill) / (n_gen - 1) if finished and n_gen > 1 else None,
            "prefill_share": prefill / median if finished else None,
            "tokens_per_s": axes["batch"] * n_gen / median if median and bound is None else None,
            **{name.replace("_bytes", "_peak_bytes"): value for name, value in memory.items()},
            "sentinel_drift": 1.01,
            "disturbed": line.disturbed.get(n_gen),
            "started_at": started,
            "wall_s": 10.0,
        }
    )
    if median is None:
        return None
    return {
        "n_requests": len(finished),
        "n_processes": 1 if finished else 0,
        "latency_s": median,
        "low_s": low,
        "high_s": high,
        "lower_bound": bound is not None,
    }


def _simulate_verdict(
    line: Line, series: str, budgets: list[dict[str, Any]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    measured = [b["n_gen"] for b in budgets]
    regimes = []
    for number, regime in enumerate(sorted(line.slow, key=lambda r: r.first), 1):
        inside = [b for b in budgets if regime.first <= b["n_gen"] <= regime.last]
        before = [n for n in measured if n < regime.first]
        after = [n for n in measured if n > regime.last]
        worst = max(inside, key=lambda b: b["latency_s"] / (b["expected_s"] or 1))
        bound = any(b["lower_bound"] for b in inside)
        neighbours = [b["latency_s"] for b in budgets if b["n_gen"] in (before[-1:] + after[:1])]
        regimes.append(
            {
                "series": series,
                "regime": number,
                "kind": regime.kind,
                "accepted": regime.accepted,
                "reason": None if regime.accepted else "its interval reaches down to 1.1 times the trend",
                "first_slow": regime.first,
                "last_slow": regime.last,
                "onset_low": before[-1] if before else None,
                "onset_high": regime.first,
                "recovery_low": regime.last,
                "recovery_high": after[0] if after else None,
                "open_left": not before,
                "open_right": not after,
                "slowdown": regime.slowdown,
                "slowdown_low": regime.slowdown * 0.85,
                "slowdown_high": None if bound else regime.slowdown * 1.2,
                "slowdown_neighbour": worst["latency_s"] / max(neighbours) if neighbours else None,
                "lower_bound": bound,
                "confirmed": regime.confirmed,
                "levels": line.levels,
                "worst_n_gen": worst["n_gen"],
                "worst_s": worst["latency_s"],
                "worst_expected_s": worst["expected_s"],
            }
        )
    tables["regimes"] += regimes
    accepted = [r for r in regimes if r["accepted"]]
    found = "slow regimes" if accepted else "smooth" if measured else "not measured"
    verdict = line.verdict or found
    axes = axes_of({"model": line.model, "device": line.device, **line.axes})
    tables["series"].append(
        {
            "series": series,
            "machine": line.machine,
            "stack": line.stack,
            **{axis.name: axes[axis.name] for axis in AXES if axis.name not in ("n_gen", "process")},
            "verdict": verdict,
            "reason": line.reason,
            "n_budgets": len(measured),
            "n_gen_min": min(measured, default=None),
            "n_gen_max": max(measured, default=None),
            "n_regimes": len(accepted),
            "slowdown_max": max((r["slowdown"] for r in accepted), default=None),
            "n_processes": 1 if measured else 0,
            "falls": bool(accepted) and verdict == "slow regimes",
            "fall_from": accepted[0]["last_slow"] if accepted else None,
            "fall_to": accepted[0]["recovery_high"] if accepted else None,
            "fall_ratio": 8.0 if accepted else None,
            "fall_p": 0.001 if accepted else None,
            **dict.fromkeys(("noticed", "noticed_ends", "called", "called_ends")),
            **({"noticed": 1.5, "noticed_ends": 1.7, "called": 1.8, "called_ends": 2.3} if measured else {}),
            **{name: line.rate.get(name) for name in RATE},
            "narrowest": max(np.diff(measured).tolist(), default=None) if measured else None,
            "stopped_from": line.stopped_from,
            "stopped_by": None if line.stopped_from is None else "stopped by the memory guard",
            "next": line.next,
            "n_cells": len(measured),
            "n_disturbed": len(line.disturbed),
            "busy": line.busy,
        }
    )


def _interval(values: list[float]) -> tuple[float | None, float | None]:
    if len(values) < 2:
        return None, None
    half = 2.0 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def _environment(stack: str) -> dict[str, Any]:
    torch, transformers = stack.split("_")[1:]
    return {
        "chip": "Simulated chip",
        "cores": 14,
        "ram_bytes": 36 * 2**30,
        "os": stack.split("_")[0].replace("-", " "),
        "os_build": "simulated",
        "python": "3.11.9",
        "torch": torch.removeprefix("torch-"),
        "transformers": transformers.removeprefix("transformers-"),
        "power_source": "mains",
    }


def _write(table: Table, rows: list[dict[str, Any]], path: Path) -> None:
    write_table(pl.DataFrame(rows, schema=table.schema, infer_schema_length=None), table, path)


def showcase() -> list[Line]:
    """One of everything: each verdict, open edges, bounds, failures, and every axis that a section compares."""
    fine = (*range(128, 481, 32), 496, 512, 528, 544, 560, 576, 592, 608, 624, 640, 672, 704, 736, 768)
    medium = (Slow(512, 624, 10.7, confirmed=True),)
    return [
        Line(grid=fine, slow=medium),
        Line(axes={"kv_cache": "off"}, slow=(Slow(512, 512, 2.0),), verdict="excess"),
        Line(axes={"n_prompt": 3}, grid=(*GRID, 624), slow=(Slow(624, 624, 12.1),)),
        Line(axes={"instrument": "per_step"}, slow=(Slow(512, 512, 11.0),)),
        Line(axes={"lifetime": "persistent", "order": "shuffled"}),
        Line(axes={"between_requests": "empty_cache"}),
        Line("gpt2-large", slow=(Slow(384, 768, 14.5),), per_token_s=0.02, stopped={768: 300.0}),
        Line(
            "bloom-560m",
            slow=(Slow(512, 640, 4.0),),
            per_token_s=0.03,
            disturbed={256: "sentinel 1.3 times slower after the run"},
            levels='[{"first": 512, "last": 512, "slowdown": 3.1}, {"first": 640, "last": 640, "slowdown": 4.9}]',
        ),
        Line(
            "opt-350m",
            slow=(Slow(128, 128, 3.0, accepted=False),),
            verdict="undetermined",
            reason="one length looks slow, but its interval reaches down to 1.1 times the trend",
            next="2 more processes at 128 tokens",
        ),
        Line("gpt2", device="cpu", per_token_s=0.02),
        Line("gpt2-medium", device="cpu", per_token_s=0.04, stack=STACK),
        Line(
            "gpt2-medium",
            device="cuda",
            failed=dict.fromkeys(GRID, "unsupported"),
            reason="no CUDA device computes here",
        ),
        Line("distilgpt2", failed={640: "out_of_memory", 768: "killed"}, per_token_s=0.006),
        Line(stack="macos-14.8_torch-2.14.0_transformers-4.57.6", grid=fine),
    ]


def large(n_lines: int = 60, n_budgets: int = 60) -> list[Line]:
    """Many curves with many lengths, a third of them slow somewhere."""
    step = max(1, 1024 // n_budgets)
    grid = tuple(range(128, 128 + step * n_budgets, step))
    slow = (Slow(grid[len(grid) // 2], grid[len(grid) * 2 // 3], 8.0),)
    return [
        Line(f"model-{number:02}", device=("mps", "cpu")[number % 2], grid=grid, slow=slow if number % 3 == 0 else ())
        for number in range(n_lines)
    ]


def first_look() -> list[Line]:
    """What a newcomer without an accelerator gets."""
    stack = "linux-6.1_torch-2.13.0-cpu_transformers-5.24.0"
    return [Line("distilgpt2", "cpu", grid=tuple(range(16, 129, 16)), repeats=2, per_token_s=0.04, stack=stack)]


if __name__ == "__main__":
    kinds = {"showcase": showcase, "first_look": first_look, "large": large, "empty": list}
    kind = sys.argv[2] if len(sys.argv) > 2 else "showcase"
    simulate(Path(sys.argv[1]), kinds[kind](), compare_with_paper=kind == "first_look")
