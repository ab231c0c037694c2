"""Runs measured at one time: how many, and whether they disturbed one another, as pairs of words."""

import polars as pl

from speedbump.analyse.neighbours import Effect, compare_neighbours
from speedbump.report.words import plural

HARMFUL, HARMLESS = 1.02, 1.05
"""A ratio surely above the first is a disturbance; one surely below the second is none that matters."""


def company(cells: pl.DataFrame) -> list[tuple[str, str]]:
    """Of the ``cells`` of one machine and stack; empty where none had a neighbour."""
    found = compare_neighbours(cells)
    if found is None:
        return []
    on = f" on {plural(found.devices, 'device')}" if found.devices else ""
    at_once = f"up to {found.most}{on}; {plural(found.beside, 'run')} beside others, {found.alone} alone"
    effects = [
        ("sentinel", found.on_sentinels),
        ("host’s sentinel", found.on_host_sentinels),
        ("same output length", found.on_latencies),
    ]
    said = [f"{what} {_words(effect)}" for what, effect in effects if effect]
    of_host = bool(found.on_host_sentinels or found.on_latencies)
    verdict = _verdict([effect for _, effect in effects if effect], of_host)
    return [("Runs at once", at_once), ("Effect of neighbours", "; ".join([verdict, *said]))]


def _words(effect: Effect) -> str:
    ratio = effect.ratio
    return (
        f"{ratio.value:.2f}× as long as alone ({ratio.low:.2f}–{ratio.high:.2f}; "
        f"{effect.beside} beside, {effect.alone} alone)"
    )


def _verdict(effects: list[Effect], of_host: bool) -> str:
    """of_host: whether something was compared that the host may bound. Neighbours share the host alone."""
    if not effects:
        return "unknown: no device has runs of both kinds"
    if any(effect.ratio.low > HARMFUL for effect in effects):
        return "they slow one another: measure one at a time"
    if any(effect.ratio.high >= HARMLESS for effect in effects):
        return "cannot tell"
    none = f"none above {HARMLESS - 1:.0%}"
    return none if of_host else f"{none} on the device, unknown on the host"
