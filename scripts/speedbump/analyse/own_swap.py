"""Whose swap it was, in runs from before that was measured, where every growth of swap flagged its cell."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from speedbump.grid.swap import NOTICED_BYTES, Demand, others_swap_bytes, own_swap_bytes

_ONLY_SWAP = r"^swap grew by (\d+) MiB$"
_RUN = ("machine", "stack", "cell")


def with_own_swap(requests: pl.DataFrame, records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """The requests without the flag of cells whose one disturbance was swap that their own processes caused, as far as
    the counters read after each request can tell; that swap in ``own_swap_bytes`` instead.

    records: the runs' metadata, each with its ``cell_id``.
    """
    grew = pl.col("disturbed").str.extract(_ONLY_SWAP).cast(pl.Int64) * 2**20
    flagged = requests.filter(pl.col("own_swap_bytes").is_null() & grew.is_not_null()).with_columns(grew=grew)
    if flagged.is_empty():
        return requests
    totals = {(r["machine"], r["stack"], r["cell_id"]): r["environment"].get("memory_bytes") for r in records}
    owned = []
    for key, rows in flagged.group_by(_RUN):
        demand = _demand(rows.sort("request"), totals.get(key))
        if demand and others_swap_bytes(demand) <= NOTICED_BYTES:
            owned.append({**dict(zip(_RUN, key, strict=True)), "owned": own_swap_bytes(demand)})
    schema = {**dict.fromkeys(_RUN, pl.String), "owned": pl.Int64}
    joined = requests.join(pl.DataFrame(owned, schema=schema), on=_RUN, how="left", maintain_order="left")
    is_owned = pl.col("owned").is_not_null()
    return joined.with_columns(
        disturbed=pl.when(is_owned).then(None).otherwise("disturbed"),
        own_swap_bytes=pl.coalesce("owned", "own_swap_bytes"),
    ).drop("owned")


def _demand(rows: pl.DataFrame, total_bytes: Any) -> Demand | None:
    """What a run asked of the memory, by its requests in their order; None where its counters do not tell.

    What others held is what was in use, in memory and in swap, less what the worker held: its footprint, which has what
    was swapped out of it, or where the system counts none its resident memory, which has not.
    """
    own = pl.coalesce("footprint_bytes", "rss_bytes")
    needed = pl.max_horizontal(own, pl.when(pl.col("device") == "mps").then("torch_driver_bytes"))
    known = rows.drop_nulls(["system_used_bytes", "swap_used_bytes"]).filter(own.is_not_null())
    if known.is_empty() or not isinstance(total_bytes, int):
        return None
    counted = known.select(
        needed=needed,
        others_used=pl.col("system_used_bytes") - own,
        others_held=pl.col("system_used_bytes") + pl.col("swap_used_bytes") - own,
    )
    return Demand(
        total_bytes=total_bytes,
        available_before_bytes=total_bytes - counted["others_used"][0],
        needed_bytes=max(counted["needed"]),
        swapped_bytes=known["grew"][0],
        others_grew_bytes=counted["others_held"][-1] - counted["others_held"][0],
    )
