"""Sentinels and flags: which cells of a table of requests were measured while the machine did something else."""

import polars as pl

LEVELS = {"sentinel": 1.5, "host_sentinel": 2.0}
"""A sentinel that took so many times as long as the machine's best disturbs the cell that it ran before. On quiet
machines the device's stays within 1.3 times its best, and the host's, on a shared host, within 1.7."""
STEADY = ("on battery power", "low-power mode")
"""Reasons that disturb nothing where all cells of a series share them."""
_TITLES = {"sentinel": "the sentinel", "host_sentinel": "the host's sentinel"}
_OWN = ["machine", "stack", "device"]
"""Sentinels of these belong together: another device does other fixed work, and another stack may do it in another
time."""


def with_best(requests: pl.DataFrame, known: pl.DataFrame | None = None) -> pl.DataFrame:
    """The requests with the best time that each sentinel ever took, by machine, stack and device.

    That is the least of the table itself, of what its columns say already, and of ``known``: further times, with
    the columns machine, stack, device, sentinel_best_s and host_sentinel_best_s.
    """
    times = {f"{name}_best_s": [f"{name}_{when}_s" for when in ("before", "after", "best")] for name in LEVELS}
    own = requests.group_by(_OWN).agg(pl.min_horizontal(pl.col(of).min()).alias(best) for best, of in times.items())
    if known is not None:
        own = pl.concat([own, known.select(own.columns)]).group_by(_OWN).agg(pl.col(*times).min())
    joined = requests.drop(*times).join(own, on=_OWN, how="left", maintain_order="left", nulls_equal=True)
    return joined.select(requests.columns)


def with_disturbances(requests: pl.DataFrame) -> pl.DataFrame:
    """The requests with three more columns, alike for all rows of a cell.

    level: time of the sentinel before the cell over its best, of both the larger in proportion to its LEVELS; null
    where none ran.  why_disturbed: what was flagged while it was measured, and levels above LEVELS, joined by "; ";
    null for none.  is_disturbed: whether that is more than a STEADY reason that all of the series share.
    """
    requests = with_best(requests)
    levels = {name: pl.col(f"{name}_before_s") / pl.col(f"{name}_best_s") for name in LEVELS}
    told = [
        pl.when(level > LEVELS[name]).then(pl.format(f"{_TITLES[name]} took {{}} times its best", level.round(1)))
        for name, level in levels.items()
    ]
    flags = pl.col("disturbed").str.split("; ")
    for reason in STEADY:
        everywhere = flags.list.contains(reason).fill_null(value=False).all().over("series")
        flags = pl.when(everywhere).then(flags.list.set_difference([reason])).otherwise(flags)
    raised = pl.any_horizontal(level > LEVELS[name] for name, level in levels.items()).fill_null(value=False)
    why = pl.concat_str("disturbed", *told, separator="; ", ignore_nulls=True)
    device, host = levels["sentinel"], levels["host_sentinel"]
    host_leads = (host / LEVELS["host_sentinel"] > device / LEVELS["sentinel"]).fill_null(device.is_null())
    return requests.with_columns(
        level=pl.when(host_leads).then(host).otherwise(device),
        why_disturbed=pl.when(why != "").then(why),
        is_disturbed=raised | (flags.list.len() > 0).fill_null(value=False),
    )
