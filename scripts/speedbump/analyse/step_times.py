"""Slow steps inside requests: from which step, in which request, for how long, and what they follow.

The same idea as along the budgets, now along the steps: a normal trend of step time over the position in the
request, and the steps that leave it. A request that is slow as a whole may be slow from its first step on, or
from some step on; and that step may depend on the position alone, as a kernel chosen by shape would have it,
or on what the process did before.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from speedbump.analyse.curve import SLOW_FROM, Array, Flags, Indices, from_repeats
from speedbump.analyse.rate import RateChange, find_change_of_steps
from speedbump.analyse.states import find_states
from speedbump.analyse.summary import summarise

BLOCK = 8
"""Steps whose median is one observation: a single slow step is a disturbance, not a state."""
_TREND_REQUESTS = 5
_TREND_BLOCKS = 128
_LEAST_REQUESTS = 3
POSITION_ALONE = 0.9
STATE = 0.7
"""When so large a share of the requests at the positions of slow steps are slow too, step time follows the position
alone; below the other share, the state."""

REQUEST_STEPS = pl.Schema(
    {
        "series": pl.String,
        "cell": pl.String,
        "n_gen": pl.Int64,
        "process": pl.Int64,
        "request": pl.Int64,
        "phase": pl.String,
        "n_steps": pl.Int64,
        "first_slow_step": pl.Int64,
        "last_slow_step": pl.Int64,
        "n_slow_steps": pl.Int64,
        "n_spells": pl.Int64,
        "slowdown": pl.Float64,
        "excess_s": pl.Float64,
    }
)
"""One row a request: steps counted from 0, the prefill, which is never judged; n_spells: separate slow stretches;
slowdown: of the slow steps against the trend, null without any; excess_s: seconds above the trend in them."""

SERIES_STEPS = pl.Schema(
    {
        "series": pl.String,
        "n_requests": pl.Int64,
        "n_slow_requests": pl.Int64,
        "first_slow_request": pl.Int64,
        "first_slow_step": pl.Int64,
        "follows": pl.String,
        "agreement": pl.Float64,
        "why": pl.String,
    }
)
"""One row a series: first_slow_request: smallest index, in its process, of a request with slow steps;
first_slow_step: median over those requests; follows: nothing, position, state or can't tell; agreement: of the other
requests at the position of a slow step, the share that is slow there too, averaged over the slow steps."""


def find_rate_changes(requests: pl.DataFrame) -> dict[str, RateChange]:
    """For every series with ``per_step`` requests in which step time rises at some position for good, that change.

    From the medians, over all measured requests that finished, of each position's blocks; a position that fewer than
    _LEAST_REQUESTS reach says nothing. Known to a block.
    """
    timed = requests.filter(
        pl.col("step_s").list.len() > 2 * BLOCK, pl.col("phase") == "measured", pl.col("status") == "ok"
    )
    changes = {}
    for rows in timed.select("series", "step_s").sort("series").partition_by("series"):
        log_s = _read_blocks(rows["step_s"]).log_s
        count = (~np.isnan(log_s)).sum(axis=0)
        reached = np.flatnonzero(count >= _LEAST_REQUESTS)
        every = -(-len(reached) // _TREND_BLOCKS) if len(reached) else 1
        chosen = reached[::every]
        if not len(chosen):
            continue
        centre = np.nanmedian(log_s[:, chosen], axis=0)
        # of all positions together: that of three requests is hardly known
        spread = 1.4826 * float(np.nanmedian(np.abs(log_s[:, chosen] - centre)))
        position = np.asarray((chosen + 0.5) * BLOCK, np.float64)
        change = find_change_of_steps(position, centre, np.pi / 2 * spread**2 / count[chosen])
        if change is not None:
            half = every * BLOCK / 2
            changes[rows["series"][0]] = replace(
                change, at=change.at + half, low=change.low - half, high=change.high + 2 * half
            )
    return changes


@dataclass(frozen=True)
class StepFindings:
    """requests: REQUEST_STEPS.  series: SERIES_STEPS."""

    requests: pl.DataFrame
    series: pl.DataFrame


@dataclass(frozen=True)
class _Blocks:
    """Step times of one series by blocks; rows are requests, columns blocks, NaN beyond a request's end.

    steps: seconds, shape (requests, steps), step 0 left out.  log_s: log of block medians, shape (requests, blocks).
    """

    steps: Array
    log_s: Array


def find_slow_steps(requests: pl.DataFrame) -> StepFindings:
    """Slow steps of every ``per_step`` request of a ``requests`` table; empty frames when there is none."""
    timed = requests.filter(pl.col("step_s").list.len() > 2 * BLOCK).select(
        "series", "cell", "n_gen", "process", "request", "phase", "step_s"
    )
    per_request, per_series = [], []
    for rows in timed.sort("series", "n_gen", "process", "request").partition_by("series", maintain_order=True):
        found, summary = _series_steps(rows)
        per_request.append(found)
        per_series.append(summary)
    return StepFindings(
        pl.concat(per_request) if per_request else pl.DataFrame(schema=REQUEST_STEPS),
        pl.DataFrame(per_series, schema=SERIES_STEPS, orient="row"),
    )


def _series_steps(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, object]]:
    blocks = _read_blocks(rows["step_s"])
    expected = _normal_step_times(blocks.log_s)
    slow = _slow_blocks(blocks.log_s - expected)
    found = rows.drop("step_s").with_columns(
        pl.Series(name, values, dtype=REQUEST_STEPS[name]) for name, values in _describe(blocks, expected, slow).items()
    )
    return found.select(REQUEST_STEPS.names()), _follow(found, slow, ~np.isnan(blocks.log_s))


def _read_blocks(step_s: pl.Series) -> _Blocks:
    lengths = step_s.list.len().to_numpy().astype(np.int64) - 1
    flat = step_s.list.slice(1).list.explode().to_numpy()
    n_blocks = -(-int(lengths.max()) // BLOCK)
    steps = np.full((len(lengths), n_blocks * BLOCK), np.nan)
    steps[np.arange(steps.shape[1]) < lengths[:, None]] = flat
    blocks = np.sort(steps.reshape(len(lengths), n_blocks, BLOCK), axis=2)  # NaN last
    size = np.clip(lengths[:, None] - BLOCK * np.arange(n_blocks), 0, BLOCK)
    middle = np.take_along_axis(blocks, np.maximum(size - 1, 0)[:, :, None] // 2, axis=2)[:, :, 0]
    # a block of fewer than half its steps has no steady median
    return _Blocks(steps, np.log(np.where(size >= BLOCK // 2, middle, np.nan)))


def _normal_step_times(log_s: Array) -> Array:
    """Log of the normal step time at every block, shape (blocks,): the trend through the fastest requests of each
    position, fitted by the states of those, so that positions that are slow in every request are not normal.
    """
    fastest = np.sort(log_s, axis=0)[:_TREND_REQUESTS]
    position: Array = np.asarray((np.arange(log_s.shape[1]) + 0.5) * BLOCK, np.float64)
    every = -(-log_s.shape[1] // _TREND_BLOCKS)
    chosen = np.flatnonzero(~np.isnan(fastest[0]))[::every]
    if len(chosen) < 2:
        return np.full(log_s.shape[1], np.nanmin(log_s))
    curve = from_repeats(position[chosen], [np.exp(f[~np.isnan(f)]) for f in fastest[:, chosen].T])
    reading = find_states(curve, summarise(curve))
    trend = reading.trend.log_latency if reading else np.full(len(chosen), np.nanmin(log_s))
    return np.asarray(np.interp(np.log(position), np.log(position[chosen]), trend))


def _slow_blocks(departure: Array) -> Flags:
    """Blocks beyond SLOW_FROM, less those alone between two normal ones."""
    slow = departure > math.log(SLOW_FROM)
    before = np.pad(slow, ((0, 0), (1, 0)))[:, :-1]
    after = np.pad(slow, ((0, 0), (0, 1)))[:, 1:]
    return np.asarray(slow & (before | after))


def _describe(blocks: _Blocks, expected: Array, slow: Flags) -> dict[str, Array | Indices | list[int | None]]:
    """The columns of REQUEST_STEPS that are computed."""
    n_steps = (~np.isnan(blocks.steps)).sum(axis=1) + 1
    normal_s = np.repeat(np.exp(expected), BLOCK)
    inside = np.repeat(slow, BLOCK, axis=1) & ~np.isnan(blocks.steps)
    some: Flags = np.asarray(inside.any(axis=1))
    excess = np.where(inside, blocks.steps - normal_s, 0.0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        usual = np.where(inside, normal_s, 0.0).sum(axis=1)
        slowdown = np.divide(usual + excess, usual, out=np.full(len(usual), np.nan), where=some)
    first, last = _ends(blocks, normal_s, slow, slowdown)
    starts = slow & ~np.pad(slow, ((0, 0), (1, 0)))[:, :-1]

    def or_none(values: Indices) -> list[int | None]:
        return [int(value) if known else None for value, known in zip(values, some, strict=True)]

    return {
        "n_steps": n_steps,
        "first_slow_step": or_none(first),
        "last_slow_step": or_none(last),
        "n_slow_steps": inside.sum(axis=1),
        "n_spells": starts.sum(axis=1),
        "slowdown": [None if math.isnan(value) else value for value in slowdown.tolist()],
        "excess_s": np.where(some, excess, 0.0),
    }


def _ends(blocks: _Blocks, normal_s: Array, slow: Flags, slowdown: Array) -> tuple[Indices, Indices]:
    """First and last slow step of every request: the outermost steps beyond the geometric middle between normal
    and slow, in the outermost slow blocks and those beside them.
    """
    limit = np.sqrt(np.maximum(np.nan_to_num(slowdown, nan=SLOW_FROM), SLOW_FROM))[:, None]
    near = slow | np.pad(slow, ((0, 0), (0, 1)))[:, 1:] | np.pad(slow, ((0, 0), (1, 0)))[:, :-1]
    with np.errstate(invalid="ignore"):
        above = (blocks.steps > limit * normal_s) & np.repeat(near, BLOCK, axis=1)
    # a step counts where its neighbour is slow too
    paired = above & (np.pad(above, ((0, 0), (0, 1)))[:, 1:] | np.pad(above, ((0, 0), (1, 0)))[:, :-1])
    first = paired.argmax(axis=1) + 1
    last = paired.shape[1] - paired[:, ::-1].argmax(axis=1)
    return first, last


def _follow(found: pl.DataFrame, slow: Flags, reached: Flags) -> dict[str, object]:
    """The row of SERIES_STEPS: what slow steps follow.

    If step time were a function of the position alone, every request would be slow where one is, whatever
    its budget, its order and what came before.
    """
    some = slow.any(axis=1)
    requests = found["request"].to_numpy()
    row: dict[str, object] = {
        "series": found["series"][0],
        "n_requests": len(found),
        "n_slow_requests": int(some.sum()),
    }
    if not some.any():
        return row | {"follows": "nothing", "why": "no request has slow steps"}
    row["first_slow_request"] = int(requests[some].min())
    row["first_slow_step"] = int(np.median(found.filter(pl.Series(some))["first_slow_step"].to_numpy()))
    n_slow, n_reached = slow.sum(axis=0), reached.sum(axis=0)
    pairs = np.where(n_reached >= 2, n_slow, 0)
    kinds = found.select("n_gen", "request").n_unique()
    if not pairs.any() or kinds < 2:
        return row | {"follows": "can't tell", "why": "too few requests reach the slow positions"}
    shared = (n_slow - 1) / np.maximum(n_reached - 1, 1)
    agreement = float((pairs * shared).sum() / pairs.sum())
    verdict = "position" if agreement >= POSITION_ALONE else "state" if agreement < STATE else "can't tell"
    told = f"where a request is slow, {100 * agreement:.0f} % of the others are slow at the same position"
    return row | {"follows": verdict, "agreement": agreement, "why": told}
