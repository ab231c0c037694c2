"""Simulated series as the table of requests that the pipeline would collect of them, and what is said of it."""

import numpy as np
import polars as pl

from bench.answers import Answer
from bench.curves import Scenario, Simulated
from bench.load import FixedWork, at_rest
from speedbump.analyse.curve import Curve, from_repeats
from speedbump.analyse.regimes import find_regimes
from speedbump.grid.axes import DEFAULTS
from speedbump.measure.environment import SENTINEL_DRIFT
from speedbump.tables import REQUESTS

_FIXED = ("sentinel_before_s", "host_sentinel_before_s", "sentinel_after_s", "host_sentinel_after_s")
_SENTINEL_TOLD = f"a sentinel drifted by more than {SENTINEL_DRIFT}, or other processes were busy"
_EARLIER = np.array([64.0, 128, 256, 512])
_STOP_TOLD = {
    "guard": "stopped by the memory guard: swap grew by 4.2 GiB, the limit is 4",
    "limit": "stopped after the request limit",
}


def requests_of(drawn: Simulated, scenario: Scenario, series: int, rng: np.random.Generator) -> pl.DataFrame:
    """A ``requests`` table: every length in one process, the fixed workload around each.

    series: its number; each series has a machine and a prompt of its own, so that no other is a reference for it.
    Where the machine is known at rest, the table also has another series that was measured then.
    """
    machine = f"simulated-{series}"
    fixed = drawn.fixed or at_rest(drawn.curve.n, rng)
    own = rows_of(
        drawn.curve, fixed, scenario.stopped_by, series=f"s{series}", machine=machine, n_prompt=2 * series + 1
    )
    if scenario.load is None or not scenario.load.known:
        return own
    earlier = from_repeats(_EARLIER, [np.exp(rng.normal(np.log(0.01 * length), 0.02, 3)) for length in _EARLIER])
    at_rest_rows = rows_of(
        earlier, at_rest(earlier.n, rng), series=f"earlier{series}", machine=machine, n_prompt=2 * series + 2
    )
    return pl.concat([own, at_rest_rows])


def rows_of(curve: Curve, fixed: FixedWork, stopped_by: str = "limit", **same: str | int) -> pl.DataFrame:
    """The requests of a curve measured in one process a length. same: columns that all its rows share."""
    logs = [curve.bound[i : i + 1] if curve.censored[i] else curve.pooled(i) for i in range(curve.n)]
    size = [len(values) for values in logs]
    cell = np.repeat(np.arange(curve.n), size)
    stopped = curve.censored[cell]
    own = {
        "n_gen": curve.budget[cell].astype(np.int64),
        "cell": [f"{same['series']}.{i}" for i in cell],
        "request": np.concatenate([np.arange(n) for n in size]),
        "status": np.where(stopped, "stopped", "ok"),
        "lower_bound": stopped,
        "message": [_STOP_TOLD[stopped_by] if late else None for late in stopped],
        "e2e_s": np.exp(np.concatenate(logs)),
        "disturbed": [_SENTINEL_TOLD if fixed.flagged[i] else None for i in cell],
        **dict(zip(_FIXED, fixed.seconds.reshape(curve.n, 4)[cell].T, strict=True)),
    }
    shared = DEFAULTS | {"stack": "simulated", "device": "cpu", "process": 1, "phase": "measured"} | same
    return pl.DataFrame(own).select(
        (pl.col(name) if name in own else pl.lit(shared.get(name))).cast(dtype).alias(name)
        for name, dtype in REQUESTS.schema.items()
    )


def answers_of(requests: pl.DataFrame, drawn: list[Simulated]) -> list[Answer]:
    """The regime finder's answer to each series of a table, in their order."""
    findings = find_regimes(requests, notice=False)
    verdicts = dict(findings.series.select("series", "verdict").rows())
    accepted = findings.regimes.filter("accepted").partition_by("series", as_dict=True)
    none = findings.regimes.clear()
    return [
        _answer(verdicts[f"s{k}"], accepted.get((f"s{k}",), none), simulated.curve.budget.astype(int).tolist())
        for k, simulated in enumerate(drawn)
    ]


def _answer(verdict: str, accepted: pl.DataFrame, lengths: list[int]) -> Answer:
    """A step that stays is no regime: where it begins, going up, or where it ends, going down, is the answer."""
    index = {length: i for i, length in enumerate(lengths)}
    kind = pl.col("kind") if "kind" in accepted.columns else pl.lit(verdict)
    is_step = kind.str.starts_with("step")
    edges = (
        pl.when(kind == "step down").then(f"recovery_{side}").otherwise(f"onset_{side}").alias(side)
        for side in ("low", "high")
    )
    steps = accepted.filter(is_step).select(edges).drop_nulls().rows()
    rows = accepted.filter(~is_step).select("first_slow", "last_slow", "slowdown", "slowdown_low", "slowdown_high")
    return Answer(
        [(index[first], index[last]) for first, last, *_ in rows.rows()],
        [(value, low, np.nan if high is None else high) for *_, value, low, high in rows.rows()],
        verdict,
        step=(index[steps[0][0]], index[steps[0][1]]) if steps else None,
    )
