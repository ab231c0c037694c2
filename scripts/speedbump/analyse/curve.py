"""A curve: what was measured of one series, budget by budget, in log seconds."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from speedbump.analyse.sentinels import with_disturbances

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]

LONGEST = 1_000_000
"""Tokens; a larger budget is no measurement."""
SHORTEST_S, LONGEST_S = 1e-9, 1e9
"""A tick of the clock, and thirty years; between them every ratio of two latencies can be computed."""
SLOW_FROM = 1.4
"""Slow-downs below this are never called slow: pages, tiles and neighbouring load reach them in a normal state."""

QUIET_SD = 0.1
"""Standard deviation of the log sentinel times of a quiet machine: warming up, clock steps."""
_SENTINELS = ("sentinel_before_s", "host_sentinel_before_s")
_BEST = ("sentinel_best_s", "host_sentinel_best_s")
_LEAST_SENTINELS = 4
_QUARTILES_OF_NORMAL = 1.349


@dataclass(frozen=True)
class Published:
    """Mean, sample standard deviation and count of a budget's requests, as a published table gives them.

    mean_s, sd_s: seconds, shape (n,); sd_s is NaN where none is published.  count: requests, shape (n,).
    """

    mean_s: Array
    sd_s: Array
    count: Array


@dataclass(frozen=True)
class Load:
    """What else the machine did while a curve was measured.

    n_cells, n_disturbed: its processes, and those that were disturbed.  fold: how many times its best a sentinel took
    before the disturbed ones, the middle of them; NaN where none ran.  reason: the first thing that was flagged.
    seconds: of both sentinels, the shortest time before a process of each budget, shape (n, 2); NaN where none ran.
    best: the best that each ever took here, shape (2,).  unrest: as Curve's, of the other processes alone.
    """

    n_cells: int
    n_disturbed: int
    fold: float
    reason: str | None
    seconds: Array
    best: Array
    unrest: float


@dataclass(frozen=True)
class Curve:
    """One series.

    budget: tokens, increasing, shape (n,).
    repeats: for each budget, for each process, the log seconds of its finished measured requests.
    bound: log seconds that a budget's requests took at least, where none of them finished; NaN elsewhere.
    n_stopped: requests behind the bound, 0 where there is none.
    stops: for each budget, of every process none of whose requests finished, the longest of them in log seconds.
    disturbed: every process of the budget was disturbed while it was measured.
    published: set instead of repeats for a table of means; repeats are then empty.
    unrest: how much whole processes were slowed by what else the machine did: standard deviation, over the
    processes, of the log time of the fixed workloads that ran before each, the larger; 0 where none ran.
    load: what else the machine did, None where nothing is known of that.
    stopped_by: for each budget, what stopped the requests behind its bound, as their message begins ("stopped by the
    memory guard"); None where nothing was stopped, or no message says. Empty: not known of any.
    """

    budget: Array
    repeats: tuple[tuple[Array, ...], ...]
    bound: Array
    n_stopped: Indices
    stops: tuple[Array, ...]
    disturbed: Flags
    published: Published | None = None
    unrest: float = 0.0
    load: Load | None = None
    stopped_by: tuple[str | None, ...] = ()

    @property
    def n(self) -> int:
        return len(self.budget)

    @property
    def censored(self) -> Flags:
        return ~np.isnan(self.bound)

    @property
    def n_processes(self) -> Indices:
        """Processes in which requests of a budget finished."""
        return np.array([len(processes) for processes in self.repeats], np.int64)

    def n_processes_beyond(self, log_latency: Array) -> Indices:
        """Those, and the processes that were stopped later than this (log seconds, one a budget)."""
        late = [int((stops > limit).sum()) for stops, limit in zip(self.stops, log_latency, strict=True)]
        return self.n_processes + np.array(late, np.int64)

    def pooled(self, i: int) -> Array:
        """Every repeat of budget ``i``, processes together; empty for a published or a censored budget."""
        return np.concatenate(self.repeats[i]) if self.repeats[i] else np.empty(0)

    def only(self, kept: Flags) -> "Curve":
        """The curve of some of its budgets: flags, shape (n,)."""
        places = np.flatnonzero(kept)
        table = self.published
        return replace(
            self,
            budget=self.budget[kept],
            repeats=tuple(self.repeats[i] for i in places),
            bound=self.bound[kept],
            n_stopped=self.n_stopped[kept],
            stops=tuple(self.stops[i] for i in places),
            disturbed=self.disturbed[kept],
            published=table and Published(table.mean_s[kept], table.sd_s[kept], table.count[kept]),
            stopped_by=tuple(self.stopped_by[i] for i in places) if self.stopped_by else (),
        )

    def slowed(self, i: int, times: float) -> "Curve":
        """The curve with every request of budget ``i`` so many times as long."""
        more = np.where(np.arange(self.n) == i, np.log(times), 0.0)
        table, factor = self.published, np.exp(more)
        return replace(
            self,
            repeats=tuple(
                tuple(values + m for values in processes) for processes, m in zip(self.repeats, more, strict=True)
            ),
            bound=self.bound + more,
            stops=tuple(stops + m for stops, m in zip(self.stops, more, strict=True)),
            published=table and Published(table.mean_s * factor, table.sd_s * factor, table.count),
        )


def from_repeats(budget: Array, repeats: list[Array]) -> Curve:
    """A curve measured in one process a budget. ``repeats``: seconds, one array a budget."""
    n = len(budget)
    logs = tuple((np.log(np.asarray(seconds, float)),) for seconds in repeats)
    return Curve(np.asarray(budget, float), logs, np.full(n, np.nan), np.zeros(n, int), _none(n), np.zeros(n, bool))


def from_published(budget: Array, mean_s: Array, sd_s: Array, count: Array) -> Curve:
    """A curve of a published table. ``sd_s``: sample standard deviations, NaN where unknown."""
    n = len(budget)
    published = Published(np.asarray(mean_s, float), np.asarray(sd_s, float), np.asarray(count, float))
    unknown, none = np.full(n, np.nan), np.zeros(n, int)
    return Curve(np.asarray(budget, float), ((),) * n, unknown, none, _none(n), np.zeros(n, bool), published)


def _none(n: int) -> tuple[Array, ...]:
    return (np.empty(0),) * n


def without_profiles(requests: pl.DataFrame) -> pl.DataFrame:
    """The requests whose times are their own: those of a profiled one are the profiler's."""
    return requests.filter(pl.col("instrument") != "profile")


def read_curves(requests: pl.DataFrame) -> Iterator[tuple[str, Curve]]:
    """The curve of every series of a ``requests`` table, in the order of their ids; series with nothing to
    read a latency from are left out.

    A latency is the e2e_s of a measured request that is ok. A request that was stopped says "at least
    e2e_s": a stopped measured request counts as a repeat where others of its budget finished and it lies beyond
    SLOW_FROM times their median, and as the budget's bound where none finished; stopped warm-ups count only
    there. Processes that were disturbed are left out where the budget was measured undisturbed as well.
    """
    usable = pl.col("e2e_s").is_not_null() & (pl.col("e2e_s") > 0)
    stopped = pl.col("lower_bound").fill_null(value=False)
    finished = (pl.col("phase") == "measured") & (pl.col("status") == "ok") & ~stopped
    rows = (
        with_disturbances(requests)
        .filter(usable & (finished | stopped))
        .select(
            "series",
            "n_gen",
            pl.struct("cell", "process").rank("dense").cast(pl.Int64).alias("process"),
            pl.col("e2e_s").log().alias("log_s"),
            finished.alias("finished"),
            ((pl.col("phase") == "measured") & stopped).alias("stopped"),
            pl.col("is_disturbed").alias("disturbed"),
            "why_disturbed",
            "level",
            *_SENTINELS,
            *_BEST,
            pl.when(stopped).then(pl.col("message").str.split(":").list.first()).alias("stopped_by"),
        )
        .sort("series", "n_gen", "process", "log_s")
    )
    for series in rows.partition_by("series", maintain_order=True):
        yield series["series"][0], _read_curve(series)


def _read_curve(rows: pl.DataFrame) -> Curve:
    budgets = rows["n_gen"].to_numpy()
    process, log_s = rows["process"].to_numpy(), rows["log_s"].to_numpy()
    finished, stopped, disturbed = (rows[name].to_numpy() for name in ("finished", "stopped", "disturbed"))
    budget, first = np.unique(budgets, return_index=True)
    repeats: list[tuple[Array, ...]] = []
    stops: list[Array] = []
    messages: list[str | None] = []
    n = len(budget)
    bound, n_stopped, flagged = np.full(n, np.nan), np.zeros(n, np.int64), np.zeros(n, bool)
    for i, (start, end) in enumerate(zip(first, [*first[1:], len(budgets)], strict=True)):
        at = slice(start, end)
        ok, value = finished[at], log_s[at]
        flagged[i] = disturbed[at].all()
        stops.append(_stops(process[at], value, ok))
        messages.append(None if ok.any() else rows["stopped_by"][int(start) + int(np.argmax(value))])
        if not ok.any():
            bound[i], n_stopped[i] = value.max(), len(value)
            repeats.append(())
            continue
        late = stopped[at]
        if late.any():
            late = late & (value > np.median(value[ok]) + np.log(SLOW_FROM))
        keep = (ok | late) & (~disturbed[at] | flagged[i])
        if not keep.any():
            keep = ok
        owner = process[at][keep]
        cuts = np.flatnonzero(np.diff(owner)) + 1
        repeats.append(tuple(np.split(value[keep], cuts)))
    processes = rows.unique("process", keep="first", maintain_order=True)
    return Curve(
        budget.astype(float),
        tuple(repeats),
        bound,
        n_stopped,
        tuple(stops),
        flagged,
        unrest=_unrest(processes),
        load=_load(rows, processes),
        stopped_by=tuple(messages),
    )


def _load(rows: pl.DataFrame, processes: pl.DataFrame) -> Load:
    """processes: the first row of each."""
    busy = processes.filter("disturbed")
    fold = busy["level"].median()
    shortest = rows.group_by("n_gen").agg(pl.col(*_SENTINELS).min()).sort("n_gen").select(_SENTINELS)
    return Load(
        n_cells=processes.height,
        n_disturbed=busy.height,
        fold=float(fold) if isinstance(fold, float) else float("nan"),
        reason=next(iter(busy["why_disturbed"].drop_nulls()), None),
        seconds=shortest.to_numpy().astype(float),
        best=rows.select(pl.col(*_BEST).min()).to_numpy().astype(float)[0],
        unrest=_unrest(processes.filter(~pl.col("disturbed"))),
    )


def _unrest(processes: pl.DataFrame) -> float:
    """Robust standard deviation of the processes' log sentinel times, less what a quiet machine shows; of the two
    sentinels the larger.
    """
    spreads = [_robust_sd(np.log(processes[sentinel].drop_nulls().to_numpy())) for sentinel in _SENTINELS]
    return float(np.sqrt(max(max(spreads) ** 2 - QUIET_SD**2, 0.0)))


def _robust_sd(times: Array) -> float:
    if len(times) < _LEAST_SENTINELS:
        return 0.0
    return float(np.subtract(*np.quantile(times, [0.75, 0.25]))) / _QUARTILES_OF_NORMAL


def _stops(process: Indices, log_s: Array, finished: Flags) -> Array:
    """The longest time of every process that finished nothing."""
    if finished.all():
        return np.empty(0)
    silent = np.setdiff1d(process, process[finished])
    return np.array([log_s[process == p].max() for p in silent])
