"""The ratio of two latencies, and how well it is known."""

import math
from collections.abc import Mapping
from typing import Any

from speedbump.analyse.confidence import Interval


def latency_of(budget: Mapping[str, Any]) -> Interval:
    """The latency in a row of tables.BUDGETS; its ``high`` is NaN where it is a lower bound."""
    if budget["lower_bound"]:
        return Interval(budget["latency_s"], budget["latency_s"], math.nan)
    return Interval(budget["latency_s"], budget["low_s"], budget["high_s"])


def latency_ratio(over: Interval, under: Interval) -> Interval | None:
    """``over / under`` with its 95 % interval: the two errors are independent, and add up in quadrature of logs.

    A latency whose ``high`` is NaN is a lower bound; so is the ratio then. Under a lower bound nothing can be
    said: None.
    """
    if math.isnan(under.high):
        return None
    value = over.value / under.value
    down = math.hypot(math.log(over.value / over.low), math.log(under.high / under.value))
    up = math.hypot(math.log(over.high / over.value), math.log(under.value / under.low))
    return Interval(value, value * math.exp(-down), value * math.exp(up))
