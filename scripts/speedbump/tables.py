"""The tables that the rooms hand on to each other: columns, types, units. Documented here, once."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from speedbump.grid.axes import AXES

VERDICTS = ("smooth", "slow regimes", "excess", "step", "rate change", "undetermined", "not measured")

REGIME_KINDS = ("regime", "step up", "step down")
"""A slow regime; from some budget on everything longer in proportion, or less long."""

PHASES = ("warmup", "measured")

STATUSES = {
    "ok": "generated every token in time",
    "stopped": "stopped by the request limit or the memory guard: at least this slow",
    "not_run": "not started, because an earlier request of the cell ended it",
    "beyond_memory": "not started, because the memory guard had stopped two shorter lengths in a row",
    "out_of_memory": "the device or the system had no memory left",
    "unsupported": "the backend lacks what the cell asks for",
    "invalid": "non-finite logits, or a wrong number of tokens",
    "inconsistent": "other tokens than another request of the same process and length; in float32 they must be equal",
    "killed": "the operating system ended the worker",
    "timed_out": "the cell's time limit passed, or the worker no longer answered",
    "device_lost": "the device stopped working in mid-cell",
    "disk_full": "no room to write",
    "import_error": "torch, transformers or the model's class could not be imported",
    "failed": "anything else; see the message",
}


@dataclass(frozen=True)
class Column:
    """One column. ``unit`` is empty for names and counts; ``meaning`` says also when it is null.

    late: not in tables from before it was measured, where it counts as null.
    """

    name: str
    dtype: pl.DataType | type[pl.DataType]
    meaning: str
    unit: str = ""
    late: bool = False


@dataclass(frozen=True)
class Table:
    """A table's name and its columns, in order."""

    name: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema({column.name: column.dtype for column in self.columns})


class TableError(Exception):
    """A file is not the table it should be; the message names the file and what differs."""


def _s(name: str, meaning: str, *, late: bool = False) -> Column:
    return Column(name, pl.String, meaning, late=late)


def _i(name: str, meaning: str, unit: str = "", *, late: bool = False) -> Column:
    return Column(name, pl.Int64, meaning, unit, late)


def _f(name: str, meaning: str, unit: str = "", *, late: bool = False) -> Column:
    return Column(name, pl.Float64, meaning, unit, late)


def _b(name: str, meaning: str, *, late: bool = False) -> Column:
    return Column(name, pl.Boolean, meaning, late=late)


_AXIS_COLUMNS = tuple(
    Column(
        axis.name,
        pl.Int64 if axis.kind is int else pl.String,
        axis.meaning,
        "tokens" if axis.name.startswith("n_") else "",
    )
    for axis in AXES
)
_PLACE = (
    _s("series", "id of the series: all cells that differ in the budget alone"),
    _s("cell", "id of the cell, and the name of its file"),
    _s("machine", "hardware and memory, a slug"),
    _s("stack", "OS, torch and transformers versions, a slug"),
)
_MEMORY = (
    _i("torch_current_bytes", "held by live tensors on the accelerator; null on a CPU", "bytes"),
    _i("torch_driver_bytes", "held from the accelerator's driver, pools included; null on a CPU", "bytes"),
    _i("rss_bytes", "resident memory of the worker", "bytes"),
    _i("footprint_bytes", "the worker's physical footprint as macOS counts it; null elsewhere", "bytes"),
    _i("system_used_bytes", "memory in use on the whole machine: all but what is free or can be had at once", "bytes"),
    _i("swap_used_bytes", "swap in use on the whole machine", "bytes"),
)

REQUESTS = Table(
    "requests",
    (
        *_PLACE,
        *_AXIS_COLUMNS,
        _i("warmups", "warm-up requests of the cell's protocol"),
        _i("repeats", "measured requests of the cell's protocol"),
        _i("seed", "of weights and prompt"),
        _s("attention_ran", "attention implementation that really ran; null when no model was built"),
        _i("request", "index of the request in its process, from 0"),
        _s("phase", " or ".join(PHASES)),
        _s("status", "ok, or what went wrong"),
        _b("lower_bound", "e2e_s is the time until the request was stopped: it is at least this slow"),
        _s("message", "one line on what went wrong; null when ok"),
        _f("ttft_s", "request start to first token; null when not reached", "s"),
        _f("decode_s", "e2e_s - ttft_s", "s"),
        _f("e2e_s", "request start to last token, the device synchronised", "s"),
        _f("tpot_s", "decode_s / (n_gen - 1); null for one token", "s"),
        _f("gap_s", "idle time before this request; null for the first", "s"),
        _s("tokens_hash", "over the generated token ids; equal hashes, equal tokens"),
        _i("distinct_tokens", "different token ids among those generated"),
        _b("finite", "all of the last step's logits are finite"),
        *_MEMORY,
        _f("sentinel_before_s", "fixed workload run before the cell, median", "s"),
        _f("sentinel_after_s", "the same after the cell", "s"),
        _f("host_sentinel_before_s", "small operations, which the host bounds; null in older tables", "s", late=True),
        _f("host_sentinel_after_s", "the same after the cell", "s", late=True),
        _f(
            "sentinel_best_s",
            "the least the first took on this machine, stack and device; null in a run",
            "s",
            late=True,
        ),
        _f("host_sentinel_best_s", "the same of the small operations", "s", late=True),
        _s("disturbed", "why the cell is flagged, reasons joined by '; '; null when it is not"),
        _i(
            "own_swap_bytes",
            "growth of swap in use that the cell's own processes caused; null where it is not known",
            "bytes",
            late=True,
        ),
        Column("started_at", pl.Datetime("us", "UTC"), "wall clock at the request's start"),
        Column("step_s", pl.List(pl.Float64), "time of every step, prefill first; per_step runs only", "s"),
    ),
)

MEMORY_SAMPLES = Table(
    "memory_samples",
    (
        *_PLACE,
        _i("n_gen", "the budget", "tokens"),
        _i("request", "index of the request in its process"),
        _f("offset_s", "time since the request's start", "s"),
        *_MEMORY,
    ),
)

PROFILES = Table(
    "profiles",
    (
        *_PLACE,
        _i("n_gen", "the budget", "tokens"),
        _i("request", "index of the profiled request in its process"),
        _s("operator", "of PyTorch, or a kernel or copy on the device"),
        _s("side", "host or device: where it ran; an operator of the host may have started kernels of the device"),
        _i("calls", "how often in the request"),
        _f("self_host_s", "time on the host in itself, without what it called", "s"),
        _f("self_device_s", "time on the device in itself; null where the profiler does not see the device", "s"),
    ),
)

CELLS = Table(
    "cells",
    (
        *_PLACE,
        *_AXIS_COLUMNS,
        _s("attention_ran", "attention implementation that really ran"),
        _s("outcome", "ok, or the first status of its requests that is not"),
        _s("message", "one line on what went wrong; null when ok"),
        _i("n_warmup", "warm-up requests that finished"),
        _i("n_measured", "measured requests that finished"),
        _f("e2e_median_s", "of the measured requests; a lower bound where lower_bound", "s"),
        _f("e2e_mean_s", "of the measured requests", "s"),
        _f("e2e_low_s", "95 % confidence interval of the mean, Student's t; null below two requests", "s"),
        _f("e2e_high_s", "its upper end", "s"),
        _f("e2e_sd_s", "sample standard deviation", "s"),
        _f("e2e_p95_s", "95th percentile, linear between requests", "s"),
        _b("lower_bound", "no measured request finished; e2e_median_s is the longest time seen"),
        _f("ttft_median_s", "of the measured requests", "s"),
        _f("decode_median_s", "of the measured requests", "s"),
        _f("tpot_median_s", "of the measured requests", "s"),
        _f("prefill_share", "ttft over e2e, median"),
        _f("tokens_per_s", "batch * n_gen / e2e_median_s", "1/s"),
        *(_i(f"{c.name.removesuffix('_bytes')}_peak_bytes", f"largest: {c.meaning}", "bytes") for c in _MEMORY),
        _f("sentinel_s", "fixed workload run before and after the cell, mean of the two", "s"),
        _f("sentinel_drift", "sentinel after over before"),
        _f("host_sentinel_s", "small operations that the host bounds, as sentinel_s; null where none ran", "s"),
        _s("disturbed", "why the cell was disturbed: flags, and sentinels far above their best; null when it was not"),
        _i(
            "own_swap_bytes",
            "swap that the cell's own processes caused; null where it is not known",
            "bytes",
            late=True,
        ),
        Column("started_at", pl.Datetime("us", "UTC"), "wall clock at the cell's first request"),
        _f("wall_s", "job start to job end, without the wait for a quiet machine", "s"),
        _s(
            "slot",
            "the GPU that was held, its identity hashed; null without one, or for a CPU cell that held several",
        ),
        _f("neighbours", "the study's other cells on the same node meanwhile, mean over time; null where unknown"),
    ),
)

FAULTS = Table(
    "faults",
    (
        _s("file", "path of the run's file, a bundle, or an environment's record, relative to the project"),
        _s("cell", "id of the cell; null for a bundle or an environment"),
        _s("problem", "missing, unreadable, wrong parameters, refused bundle, or no environment"),
        _s("message", "one line that says what is wrong"),
    ),
)

BUDGETS = Table(
    "budgets",
    (
        _s("series", "id of the series"),
        _i("n_gen", "the budget", "tokens"),
        _i("n_requests", "measured requests that finished, over all processes"),
        _i("n_processes", "processes that say something of it: requests finished, or were stopped surely late"),
        _f("latency_s", "robust centre of the requests' E2E; the longest time seen where lower_bound", "s"),
        _f("low_s", "95 % interval of the centre; null where lower_bound", "s"),
        _f("high_s", "its upper end", "s"),
        _b("lower_bound", "nothing finished: at least this slow"),
        _f("expected_s", "what the series' normal trend expects; null without a trend", "s"),
        _f("expected_low_s", "95 % interval of the expectation", "s"),
        _f("expected_high_s", "its upper end", "s"),
        _f("slowdown", "latency_s / expected_s"),
        _f("p_slow", "posterior probability of the slow state"),
        _s("state", "normal, slow, or unclear"),
        _b("unstable", "repeats sit in both states"),
        _f(
            "noticed",
            "slow-down of this budget alone from which on the verdict would be another, 9 times in 10; or null",
        ),
        _f("called", "slow-down from which on it would be called slow; null where none would, or it is not normal"),
        _b("disturbed", "measured only while the machine was busy: no comparison rests on it", late=True),
    ),
)

SERIES = Table(
    "series",
    (
        _s("series", "id of the series"),
        _s("machine", "hardware and memory, a slug"),
        _s("stack", "OS, torch and transformers versions, a slug"),
        *(c for c in _AXIS_COLUMNS if c.name not in ("n_gen", "process")),
        _s("verdict", "one of: " + ", ".join(VERDICTS)),
        _s(
            "reason",
            "why undetermined or not measured, which reference shows it slow throughout, or which budgets the verdict "
            "leaves out; else null",
        ),
        _i("n_budgets", "budgets that the verdict rests on: without those stopped too early, and those too fast"),
        _i("n_gen_min", "smallest of them", "tokens"),
        _i("n_gen_max", "largest of them", "tokens"),
        _i("n_regimes", "accepted slow regimes; a step is none"),
        _f("slowdown_max", "largest slow-down of a regime or step against the trend; null without one"),
        _i("n_processes", "most processes behind one budget: 1 means the intervals are within one process"),
        _b("falls", "latency falls significantly from some budget to a larger one"),
        _i("fall_from", "budget before the most significant fall", "tokens"),
        _i("fall_to", "budget after it", "tokens"),
        _f("fall_ratio", "latency before over after"),
        _f("fall_p", "its p value, Bonferroni over all pairs"),
        _f(
            "noticed",
            "largest such value of the budgets between the ends; null where a stretch that stood out is smaller",
        ),
        _f("noticed_ends", "the same of the two ends"),
        _f("called", "largest slow-down that a budget between the ends needs to be called slow; null as above"),
        _f("called_ends", "the same of the two ends"),
        _i("rate_from", "budget from which on every further token costs more; null without a change of rate", "tokens"),
        _i("rate_from_low", "95 % interval of it", "tokens"),
        _i("rate_from_high", "its upper end", "tokens"),
        _f("rate_ratio", "what a token costs from there on, over what it would have cost"),
        _f("rate_ratio_low", "95 % interval of that"),
        _f("rate_ratio_high", "its upper end"),
        _i(
            "narrowest",
            "regimes narrower than this many tokens may have been missed: the widest step measured",
            "tokens",
        ),
        _i(
            "stopped_from",
            "from this budget on every request was stopped before it was surely slow; null where there is none",
            "tokens",
            late=True,
        ),
        _s("stopped_by", "by what, as the messages of its requests begin; null where stopped_from is", late=True),
        _s("next", "what to measure next, in plain words; null when nothing"),
        _i("n_cells", "processes behind the curve", late=True),
        _i("n_disturbed", "of these, disturbed while they were measured", late=True),
        _b("busy", "most of it was measured while the machine was busy: nothing is called", late=True),
    ),
)

REGIMES = Table(
    "regimes",
    (
        _s("series", "id of the series"),
        _i("regime", "number within the series, from 1"),
        _s(
            "kind",
            "one of: " + ", ".join(REGIME_KINDS) + "; the slow budgets of a step are those on its slow side; null in "
            "older tables, which have regimes only",
            late=True,
        ),
        _b("accepted", "false: looks slow, evidence too weak; reason says why"),
        _s("reason", "why not accepted; null when accepted"),
        _i("first_slow", "smallest slow budget", "tokens"),
        _i("last_slow", "largest slow budget", "tokens"),
        _i("onset_low", "last budget surely normal before it; null when open on the left", "tokens"),
        _i("onset_high", "first budget surely slow", "tokens"),
        _i("recovery_low", "last budget surely slow", "tokens"),
        _i("recovery_high", "first budget surely normal after it; null when open on the right", "tokens"),
        _b("open_left", "begins at the smallest budget measured"),
        _b("open_right", "ends at the largest budget measured: not seen to recover"),
        _f("slowdown", "against the normal trend; a lower bound where lower_bound"),
        _f("slowdown_low", "95 % interval", ""),
        _f("slowdown_high", "its upper end; null where lower_bound"),
        _f(
            "slowdown_neighbour",
            "against the slower of its two normal neighbours, each latency over what is expected at its length; null "
            "when open on both sides",
        ),
        _b("lower_bound", "at least one budget of it never finished"),
        _b("confirmed", "seen again in another process: edges and one inner budget"),
        _s("levels", "JSON list of {first, last, slowdown} when it has several levels; null otherwise"),
        _i("worst_n_gen", "budget with the largest slow-down", "tokens"),
        _f("worst_s", "its latency", "s"),
        _f("worst_expected_s", "what the trend expects there", "s"),
    ),
)

COMPARISONS = Table(
    "comparisons",
    (
        _s("axis", "the one axis in which the two series differ; lifetime stands for order and pauses as well"),
        _s("over", "id of the series whose latency is above the line: the less usual value, or the larger"),
        _s("under", "id of the series below it"),
        _s("over_value", "the axis' value of the first"),
        _s("under_value", "the axis' value of the second"),
        _i("n_gen", "a budget that both have", "tokens"),
        _f("ratio", "latency over latency"),
        _f("low", "95 % interval of the ratio, the two errors taken as independent"),
        _f("high", "its upper end"),
        _s("bound", "at least, or at most, where one of the latencies is a lower bound; that end is then null"),
        _b("same_tokens", "both generated the same; null where unknown, or their own requests disagree"),
        _b("disturbed", "one of the two was measured only while the machine was busy: it decides nothing", late=True),
    ),
)

CHANGE_WORDS = ("new", "slower", "moved", "gone", "faster", "can't tell", "unchanged")
"""What became of a series, the worst first."""
BUSIER = "busier"
"""Code of a comparison that cannot be told because the machine was busier on one side, or busy on both."""
REGIME_WORDS = ("same", "moved", "gone", "new", "slower", "faster", "can't tell")
BUDGET_WORDS = ("slower", "faster", "unchanged", "unclear")

_SIDES = (
    _s("old", "id of the series of the older stack, or of the first machine"),
    _s("new", "id of the same series of the newer stack, or of the other machine"),
)

SERIES_CHANGES = Table(
    "series_changes",
    (
        *_SIDES,
        _s("old_machine", "machine of the first"),
        _s("old_stack", "its stack"),
        _s("new_machine", "machine of the other"),
        _s("new_stack", "its stack"),
        _s("verdict", "the worst that is shown: " + ", ".join(CHANGE_WORDS)),
        _s("sentence", "what it rests on"),
        _s("next", "what to measure next, in plain words; null when nothing"),
        _i("n_budgets", "budgets that both have"),
        _i("n_slower", "of these, shown to be slower"),
        _i("n_faster", "of these, shown to be faster"),
        _i("n_unclear", "of these, changed by more than noise, but a disturbance of single processes could explain it"),
        _f("shift", "latency of normal budgets, new over old, regimes apart; null without normal budgets"),
        _f("shift_low", "95 % interval, noise of processes and sessions included"),
        _f("shift_high", "its upper end"),
        _s("trend", "slower, faster or unchanged: what the shift, corrected, and the fixed workload allow to say"),
        _f("drift", "time of the fixed workload, new over old; 1 where it shows no difference, or none ran"),
        _f("shift_detectable", "smallest slow-down of all normal budgets that would have been found nine times in ten"),
        _f("detectable", "the same of a single budget"),
        _s("doubt", f"{BUSIER}: the machine was busier on one side, so nothing can be told; else null", late=True),
    ),
)

REGIME_CHANGES = Table(
    "regime_changes",
    (
        *_SIDES,
        _s("change", "one of: " + ", ".join(REGIME_WORDS)),
        _s("reason", "what cannot be told; null otherwise"),
        *(
            _i(f"{side}_{name}", f"{meaning}, {side}; null {null}", "tokens")
            for side in ("old", "new")
            for name, meaning, null in (
                ("before", "last budget known to be normal before it", "where none is"),
                ("first", "smallest budget known to be slow", "where there is no regime"),
                ("last", "largest budget known to be slow", "where there is no regime"),
                ("after", "first budget known to be normal after it", "where none is"),
            )
        ),
        _f("old_slowdown", "against the old trend"),
        _f("new_slowdown", "against the new trend, or where few budgets were measured against the old one, shifted"),
        _i(
            "onset_moved_low",
            "its beginning moved by at least this, to larger budgets positive; null: not shown",
            "tokens",
        ),
        _i("onset_moved_high", "and by at most this", "tokens"),
        _i("recovery_moved_low", "its end moved by at least this; null: not shown", "tokens"),
        _i("recovery_moved_high", "and by at most this", "tokens"),
        _f("factor", "slow-down, new over old, at the budgets slow in both; null where there is none"),
        _f("factor_low", "95 % interval"),
        _f("factor_high", "its upper end"),
        _b("confirmed", "both ends seen in several processes, in every stack that has it"),
    ),
)

BUDGET_CHANGES = Table(
    "budget_changes",
    (
        *_SIDES,
        _i("n_gen", "a budget that both have", "tokens"),
        _f("ratio", "latency, new over old"),
        _f("low", "95 % interval, noise of processes and sessions included; not corrected for many budgets"),
        _f("high", "its upper end"),
        _s("bound", "at least, or at most, where one latency is a lower bound; unknown where both are; else null"),
        _f("p", "of no change, corrected for all tests of the two stacks or machines (Holm)"),
        _s("change", "one of: " + ", ".join(BUDGET_WORDS)),
        _s("old_state", "normal, slow, or unclear"),
        _s("new_state", "the same of the other"),
        _b("disturbed", "on one side at least, every process of it was disturbed: no change is called"),
        _b("same_tokens", "both generated the same; null where unknown, or their own requests disagree"),
    ),
)

OUTCOMES = ("holds", "differs", "can't tell", "not measured", "stated, not tabulated")

CLAIMS = Table(
    "claims",
    (
        _s("claim_id", "C1 to C21, as in config/reference"),
        _s("claim", "what the paper says"),
        _s("statistic", "what its value is"),
        _s("paper_value", "the value in the paper, as written there"),
        _s("unit", "of the values"),
        _s("scope", "models, budgets and machine of the paper's value"),
        _s("experiment", "experiment of config/paper.yaml that measures it"),
        _s("origin", "measured, or published: the same rule over the paper's own tables"),
        _s("machine", "whose measurements are checked; null for published"),
        _s("stack", "under which they were made; null for published"),
        _s("outcome", "one of: " + ", ".join(OUTCOMES)),
        _s("value", "the statistic here, in the paper's form; null where there is none"),
        Column("values", pl.List(pl.Float64), "its numbers, in full"),
        _f("low", "95 % interval of a single number whose spread was measured; null otherwise"),
        _f("high", "its upper end; null also where a request was stopped"),
        _s("rule", "when the claim holds, when it differs, and what the value is"),
        _s("why", "what the outcome rests on, or what is missing"),
    ),
)

HYPOTHESES = Table(
    "hypotheses",
    (
        _s("machine", "hardware and memory, a slug"),
        _s("stack", "OS, torch and transformers versions, a slug"),
        _s("series", "the reference curve, whose slow regime is to be explained"),
        _s("hypothesis", "H1 to H7, as in docs/mechanism.md"),
        _s("statement", "what it says"),
        _s("verdict", "supported, contradicted, can't tell, or nothing to explain"),
        _s("why", "what the verdict rests on, or what is missing"),
        _s("prediction", "what it predicts, in words; one row for each"),
        _b("needed", "it is supported only if this was tested and agrees"),
        _s("observable", "what was looked at, a function of analyse/mechanism/observations.py"),
        _s("expected", "values of the observable that agree: its whole interval must lie within"),
        _s("against", "values that contradict: its whole interval must lie beyond; empty: none does"),
        _s("arm", "in which the value was seen; null when not tested"),
        _f("value", "of the observable; null when not tested"),
        _f("low", "95 % interval"),
        _f("high", "its upper end"),
        _i("n", "lengths, cells or requests behind it"),
        _s("outcome", "agrees, disagrees, can't tell, or not tested"),
        _s("seen", "the value in words, or what would have to be measured"),
    ),
)

GROWTH = Table(
    "growth",
    (
        _s("machine", "hardware and memory, a slug"),
        _s("stack", "OS, torch and transformers versions, a slug"),
        _s("series", "the reference curve"),
        _s("counter", "a memory counter, as in requests, without its unit"),
        _s("over", "length: of the request, up to the last slow one; requests: of a process; steps: of one request"),
        _s("kind", "flat, linear, quadratic, or between: the data do not say"),
        _f("power", "of x in a + c * x ** power, a and c not negative; 0 when flat"),
        _f("low", "95 % interval of the power"),
        _f("high", "its upper end"),
        _i("change_bytes", "largest less smallest value", "bytes"),
        _i("n", "different values of x"),
    ),
)

MITIGATIONS = Table(
    "mitigations",
    (
        _s("machine", "hardware and memory, a slug"),
        _s("stack", "OS, torch and transformers versions, a slug"),
        _s(
            "reference",
            "plain series; the arm differs in one thing from it, or from its like with the arm's instrument",
        ),
        _s("series", "series of the arm"),
        _s("axis", "the one axis"),
        _s("value", "its value in the arm"),
        _i("rank", "from 1: least slow-down left, then least price"),
        _f("reference_slowdown", "of what the arm is compared with, in its regime; null without one"),
        _f("slowdown", "what stays of it in the arm, its price taken off; null without a regime"),
        _f("slowdown_low", "95 % interval"),
        _f("slowdown_high", "its upper end"),
        _f("inside", "latency over the reference's, at lengths slow there"),
        _f("inside_low", "95 % interval"),
        _f("inside_high", "its upper end"),
        _f("price", "latency over the reference's, at lengths normal in both"),
        _f("price_low", "95 % interval"),
        _f("price_high", "its upper end"),
        _i("n_inside", "slow lengths in both"),
        _i("n_outside", "normal lengths behind the price"),
        _b("lower_bound", "a request of the arm was stopped at a slow length: the slow-down is at least this"),
    ),
)

PREDICTIONS = Table(
    "predictions",
    (
        _s("origin", "measured, or published: the paper's own figures"),
        _s("machine", "hardware and memory, a slug"),
        _s("stack", "OS, torch and transformers versions, a slug"),
        *(c for c in _AXIS_COLUMNS if c.name in ("model", "device", "dtype", "kv_cache", "n_prompt", "instrument")),
        _f("memory_gb", "the machine's memory, from its slug", "GiB"),
        _i("n_gen_min", "smallest budget measured", "tokens"),
        _i("n_gen_max", "largest of them", "tokens"),
        _i("expected_normal", "largest budget that the allocator-pool hypothesis expects normal", "tokens"),
        _i("expected_slow", "smallest that it expects slow; null: none", "tokens"),
        _i("expected_recovery", "smallest at which it expects a purge; null: none", "tokens"),
        _i("onset_low", "last normal budget measured before the first regime", "tokens"),
        _i("onset_high", "first slow one; null: none", "tokens"),
        _i("recovery_low", "last slow one", "tokens"),
        _i("recovery_high", "first normal one after it; null: none", "tokens"),
        _f("need_low_gib", "weights and pool by the formula at onset_low", "GiB"),
        _f("need_high_gib", "the same at onset_high", "GiB"),
        _s("outcome", "hit, miss, can't tell, or not predicted"),
        _s("why", "what the outcome rests on"),
        _i("fitted_n", "onsets of this machine and stack from which their own threshold is fitted"),
        _f("fitted_low_gib", "the threshold lies above; null below two onsets, or when no single one fits", "GiB"),
        _f("fitted_high_gib", "and below", "GiB"),
    ),
)

TABLES = (
    REQUESTS,
    MEMORY_SAMPLES,
    PROFILES,
    CELLS,
    FAULTS,
    BUDGETS,
    SERIES,
    REGIMES,
    COMPARISONS,
    SERIES_CHANGES,
    REGIME_CHANGES,
    BUDGET_CHANGES,
    CLAIMS,
    HYPOTHESES,
    GROWTH,
    MITIGATIONS,
    PREDICTIONS,
)


def mark_inconsistent(requests: pl.DataFrame) -> pl.DataFrame:
    """The requests table with the status ``inconsistent`` where requests of one process and length that finished,
    warm-ups included, did not all generate the same tokens. Of cells in float32 alone.

    Greedy decoding of one prompt in one process gives equal tokens there, so the device erred at least once, and
    nothing says when. A majority does not: after its first fault a device may answer every further request with the
    same nonsense, and faster. So none of them is a latency; the cell is worth measuring again.
    In float16 and bfloat16 tokens need not repeat from request to request on a healthy GPU, as runs recorded on an H200
    show (tests/analyse/test_recorded.py): two logits are often as good as equal. Differing tokens say nothing there.
    """
    of_length = ("machine", "stack", "cell", "n_gen")
    finished = pl.col("status") == "ok"
    hashes = pl.col("tokens_hash").filter(finished)
    n_outputs = hashes.drop_nulls().n_unique().over(of_length)
    message = pl.format("{} different outputs in {} requests of this length", n_outputs, hashes.len().over(of_length))
    differs = finished & (pl.col("dtype") == "float32") & (n_outputs > 1)
    return requests.with_columns(
        status=pl.when(differs).then(pl.lit("inconsistent")).otherwise("status"),
        message=pl.when(differs).then(message).otherwise("message"),
    )


def late_values(table: Table) -> dict[str, pl.Expr]:
    """What files from before a column hold in it: an axis' default, at which their cells were measured, else null."""
    values = {axis.name: pl.lit(axis.default) for axis in AXES if axis.late and axis.name in table.schema}
    return values | {column.name: pl.lit(None, column.dtype) for column in table.columns if column.late}


def check_table(frame: pl.DataFrame, table: Table, where: str) -> pl.DataFrame:
    """The frame with exactly the table's columns in order. Raises TableError naming ``where``.

    Columns that came later are filled in, as ``late_values`` says.
    """
    if frame.schema == table.schema:
        return frame
    late = late_values(table)
    frame = frame.with_columns(value.alias(name) for name, value in late.items() if name not in frame.columns)
    missing = [name for name in table.schema if name not in frame.columns]
    extra = [name for name in frame.columns if name not in table.schema]
    if missing or extra:
        parts = [f"lacks {', '.join(missing)}"] if missing else []
        parts += [f"has unknown {', '.join(extra)}"] if extra else []
        raise TableError(f"{where}: not a {table.name} table: it {' and '.join(parts)}")
    try:
        return frame.select(pl.col(name).cast(dtype) for name, dtype in table.schema.items())
    except pl.exceptions.PolarsError as error:
        raise TableError(f"{where}: not a {table.name} table: {str(error).splitlines()[0]}") from error


def read_table(path: str | Path, table: Table) -> pl.DataFrame:
    """Read and check a Parquet table. Raises TableError when it is missing, broken or another table."""
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
    return check_table(frame, table, str(path))


def write_table(frame: pl.DataFrame, table: Table, path: str | Path, metadata: dict[str, str] | None = None) -> None:
    """Check and write a table, whole or not at all. ``metadata``: text kept in the Parquet footer.

    Raises TableError when it is another table, or when writing fails within Parquet (a full disk); else OSError.
    """
    checked = check_table(frame, table, str(path))
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}.", suffix=".tmp")
    os.close(handle)
    try:
        checked.write_parquet(name, metadata=metadata)
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except pl.exceptions.PolarsError as error:
        Path(name).unlink(missing_ok=True)
        raise TableError(f"{path}: cannot be written: {str(error).splitlines()[0]}") from error
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_metadata(path: str | Path) -> dict[str, str]:
    """The footer's text, without reading the table. Raises TableError as read_table."""
    try:
        return pl.read_parquet_metadata(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise TableError(f"{path}: cannot be read as Parquet: {str(error).splitlines()[0]}") from error
