"""Findings as text for a terminal, and as JSON for scripts."""

import json
from typing import Any

from speedbump.analyse.regimes import Findings
from speedbump.grid.axes import DEFAULTS

Row = dict[str, Any]
_PLACE = {"machine", "stack", *DEFAULTS}
"""Columns that a curve read from a CSV leaves null."""


def as_json(findings: Findings) -> str:
    """All series with their regimes, as one JSON text; no budgets."""
    told = [
        {
            **{name: value for name, value in row.items() if name not in _PLACE or value is not None},
            "regimes": [{k: v for k, v in regime.items() if k != "series"} for regime in _regimes(findings, row)],
        }
        for row in findings.series.iter_rows(named=True)
    ]
    for series in told:
        for regime in series["regimes"]:
            regime["levels"] = json.loads(regime["levels"]) if regime["levels"] else None
    return json.dumps({"series": told}, indent=2, allow_nan=False)


def as_text(findings: Findings) -> str:
    """A paragraph a series: verdict, regimes with edges, slow-down and interval, what to measure next."""
    return "\n\n".join(_paragraph(findings, row) for row in findings.series.iter_rows(named=True))


def _paragraph(findings: Findings, row: Row) -> str:
    verdict = "above the trend, a fall not shown" if row["verdict"] == "excess" else row["verdict"]
    lines = [f"{row['series']}: {verdict}"]
    if row["reason"]:
        lines.append(f"  {row['reason']}")
    lines += [f"  {_regime(regime, row)}" for regime in _regimes(findings, row) if regime["accepted"]]
    if row["verdict"] == "slow regimes" and row["falls"]:
        lines.append(f"  latency falls by {row['fall_ratio']:.2f} from {row['fall_from']} to {row['fall_to']} tokens")
    if row["rate_ratio"] is not None:
        lines.append(f"  {_rate(row)}")
    if row["n_budgets"]:
        lines.append(f"  {_measured(row)}")
    if row["next"]:
        lines.append(f"  {row['next']}")
    return "\n".join(lines)


def _rate(row: Row) -> str:
    place = f"from {row['rate_from']} tokens on (95 % {row['rate_from_low']} to {row['rate_from_high']})"
    ends = f"95 % {row['rate_ratio_low']:.1f} to {row['rate_ratio_high']:.1f}"
    return f"{place} each further token costs {row['rate_ratio']:.1f} times as much ({ends})"


def _measured(row: Row) -> str:
    """What was measured, and what would have been noticed in it."""
    n = row["n_budgets"]
    text = f"{n} budget{'' if n == 1 else 's'} from {row['n_gen_min']} to {row['n_gen_max']} tokens"
    noticed = [
        f"of {row[name]:.1f} {place}"
        for name, place in (("noticed", "at any budget between the ends"), ("noticed_ends", "at the ends"))
        if row[name] is not None
    ]
    if not noticed:
        return text
    text = f"{text}; a slow-down {' and one '.join(noticed)} would have been noticed"
    narrow = f", a regime narrower than {row['narrowest']} tokens may not" if row["narrowest"] > 1 else ""
    return f"{text}{narrow}"


def _regimes(findings: Findings, row: Row) -> list[Row]:
    own = findings.regimes.filter(findings.regimes["series"] == row["series"])
    return list(own.iter_rows(named=True))


def _regime(regime: Row, row: Row) -> str:
    first, last = regime["first_slow"], regime["last_slow"]
    where = f"{first} tokens" if first == last else f"{first} to {last} tokens"
    if regime["kind"] != "regime":
        return _step(regime, row)
    if regime["lower_bound"]:
        factor = f"at least {regime['slowdown']:.1f} times the trend (95 % above {regime['slowdown_low']:.1f})"
    else:
        low, high = regime["slowdown_low"], regime["slowdown_high"]
        factor = f"{regime['slowdown']:.1f} times the trend (95 % {low:.1f} to {high:.1f}{_within(row)})"
    parts = [f"slow at {where}: {factor}"]
    if regime["slowdown_neighbour"] is not None:
        parts.append(f"{regime['slowdown_neighbour']:.1f} times its slower neighbour, its length allowed for")
    parts.append(_edge("begins", regime["onset_low"], regime["onset_high"], "smaller"))
    parts.append(_edge("ends", regime["recovery_low"], regime["recovery_high"], "larger"))
    return "; ".join([*parts, _seen(regime)])


def _step(regime: Row, row: Row) -> str:
    """``a step at 64 tokens: 5.2 times as long from there on (95 % 4.1 to 6.6); begins between 32 and 64``."""
    factor, low, high = regime["slowdown"], regime["slowdown_low"], regime["slowdown_high"]
    if regime["kind"] == "step up":
        at, edge = regime["first_slow"], (regime["onset_low"], regime["onset_high"])
        change = f"{factor:.1f} times as long from there on (95 % {low:.1f} to {high:.1f}{_within(row)})"
        stays = f"stays so up to {regime['last_slow']}"
    else:
        at, edge = regime["recovery_high"] or row["n_gen_max"], (regime["recovery_low"], regime["recovery_high"])
        ends = f"95 % {1 / high:.2f} to {1 / low:.2f}{_within(row)}"
        change = f"{1 / factor:.2f} times as long from there on ({ends})"
        stays = f"stays so up to {row['n_gen_max']}"
    return "; ".join([f"a step at {at} tokens: {change}", _edge("begins", *edge, "such"), stays, _seen(regime)])


def _seen(regime: Row) -> str:
    return "seen again in another process" if regime["confirmed"] else "not yet seen in another process"


def _within(row: Row) -> str:
    return ", within one process" if row["n_processes"] == 1 else ""


def _edge(verb: str, low: int | None, high: int | None, beyond: str) -> str:
    if low is None or high is None:
        return f"not seen where it {verb}: no {beyond} budget is normal"
    return f"{verb} between {low} and {high}"
