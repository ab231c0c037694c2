"""The predicted onset beside the measured one, for every series and machine, measured and published."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from speedbump.analyse.claims.evidence import Evidence, Series, memory_gb
from speedbump.grid.axes import DEFAULTS
from speedbump.grid.models import Model, memory_need
from speedbump.grid.onset import GIB, is_predicted, predict_onset

Row = dict[str, Any]
Needs = tuple[float, float]
_FREE = ("model", "device", "dtype", "attention", "kv_cache", "n_prompt", "instrument", "batch")
"""Axes that a prediction takes into account, or that change no size; any other must be at its default."""


@dataclass(frozen=True)
class _Seen:
    """A series with its model, and the bracket of its onset: (last normal, first slow) budgets, None where open."""

    series: Series
    model: Model
    onset: tuple[int | None, int | None]

    def need(self, n_gen: int) -> float:
        axes = self.series.axes
        return float(
            memory_need(self.model, axes["dtype"], "mps", axes["n_prompt"], n_gen, axes["kv_cache"], axes["batch"])
        )

    @property
    def needs(self) -> Needs:
        """Bytes needed at the last normal and at the first slow budget."""
        low, high = self.onset
        return (0.0 if low is None else self.need(low)), (math.inf if high is None else self.need(high))

    @property
    def configuration(self) -> tuple[Any, ...]:
        """What decides the need: runs of one configuration are one observation of the threshold."""
        return tuple(self.series.axes[name] for name in ("model", "dtype", "kv_cache", "n_prompt", "batch"))


Place = tuple[str, str]
"""Machine and stack."""


def prediction_rows(
    evidence: Iterable[Evidence], models: Mapping[str, Model], recommended: Mapping[Place, float] | None = None
) -> list[Row]:
    """Rows of tables.PREDICTIONS, of each series that the hypothesis is about and of each that it is not.

    recommended: bytes of the working set that Metal recommends, where runs recorded it.

    A threshold is fitted to the onsets of one machine and stack: another stack's allocator may have another.
    """
    rows: list[Row] = []
    recommended = recommended or {}
    for part in evidence:
        origin = "published" if part.published else "measured"
        for machine, stack in sorted({(series.machine, series.stack) for series in part.everywhere}):
            own = [series for series in part.everywhere if (series.machine, series.stack) == (machine, stack)]
            rows += [{"origin": origin, "machine": machine, **row} for row in _rows_of_stack(own, models, recommended)]
    return rows


def _rows_of_stack(every: list[Series], models: Mapping[str, Model], recommended: Mapping[Place, float]) -> list[Row]:
    gigabytes = memory_gb(every[0].machine)
    seen = [(series, _see(series, models)) for series in every]
    fitted = fit_threshold([(known.configuration, known.needs) for _, known in seen if known])
    rows = []
    for series, known in seen:
        row = _identity(series) | {"memory_gb": gigabytes}
        if known is None or gigabytes is None:
            missing = "its model is not known" if known is None else "the machine's memory is not known"
            rows.append(row | {"outcome": "not predicted", "why": missing if _is_about(series) else _NOT_ABOUT})
        else:
            rows.append(row | _compare(known, gigabytes, recommended.get((series.machine, series.stack))) | fitted)
    return rows


_NOT_ABOUT = "the hypothesis is about the MPS allocator and a plain cache of tensors"


def _is_about(series: Series) -> bool:
    axes = series.axes
    plain = all(value == DEFAULTS[name] for name, value in axes.items() if name not in _FREE)
    return is_predicted(axes["device"], axes["kv_cache"]) and plain


def _see(series: Series, models: Mapping[str, Model]) -> _Seen | None:
    model = models.get(series.model)
    if model is None or not _is_about(series) or not series.points:
        return None
    if series.regimes:
        first = series.regimes[0]
        return _Seen(series, model, (first.onset_low, first.onset_high))
    return _Seen(series, model, (max(series.points), None) if series.verdict == "smooth" else (None, None))


def _identity(series: Series) -> Row:
    axes = series.axes
    lengths = sorted(series.points)
    return {
        "stack": series.stack,
        "model": series.model,
        **{name: axes[name] for name in ("device", "dtype", "kv_cache", "n_prompt", "instrument")},
        "n_gen_min": lengths[0] if lengths else None,
        "n_gen_max": lengths[-1] if lengths else None,
    }


def _compare(known: _Seen, gigabytes: float, recommended_bytes: float | None) -> Row:
    axes, (low, high) = known.series.axes, known.onset
    longest = max(known.series.points)
    onset = predict_onset(
        known.model,
        axes["dtype"],
        axes["n_prompt"],
        gigabytes * GIB,
        axes["kv_cache"],
        axes["batch"],
        recommended_bytes=recommended_bytes,
    )
    regime = known.series.regimes[0] if known.series.regimes else None
    row = {
        "expected_normal": onset.last_normal,
        "expected_slow": onset.first_slow,
        "expected_recovery": onset.recovery,
        "onset_low": low,
        "onset_high": high,
        "recovery_low": regime.recovery_low if regime else None,
        "recovery_high": regime.recovery_high if regime else None,
        "need_low_gib": known.need(low) / GIB if low is not None else None,
        "need_high_gib": known.need(high) / GIB if high is not None else None,
    }
    if low is None and high is None:
        return row | {"outcome": "can't tell", "why": f"the curve is {known.series.verdict}"}
    hit, why = _is_hit(known, onset.last_normal, onset.first_slow, longest)
    return row | {"outcome": "hit" if hit else "miss", "why": why}


def _is_hit(known: _Seen, last_normal: int, first_slow: int | None, longest: int) -> tuple[bool, str]:
    """Whether some onset that the hypothesis allows lies within what was measured."""
    low, high = known.onset
    if high is None:
        hit = last_normal >= longest or first_slow is None or first_slow > longest
        return hit, f"no onset up to {longest} tokens" + ("" if hit else f", expected by {first_slow}")
    if last_normal >= high:
        return False, f"slow from {high} tokens, expected normal up to {last_normal}"
    if first_slow is not None and low is not None and first_slow <= low:
        return False, f"normal up to {low} tokens, expected slow from {first_slow}"
    return True, f"measured between {low or 'the first'} and {high} tokens"


def fit_threshold(needs: Iterable[tuple[tuple[Any, ...], Needs]]) -> Row:
    """The threshold in GiB that the onsets of a machine and stack leave, once there are two or more: fitted_low_gib and
    fitted_high_gib, and fitted_n onsets; null where no single threshold fits.

    needs: by configuration, bytes at the last normal and at the first slow budget; infinite where none was slow.
    """
    every = [(configuration, pair) for configuration, pair in needs if pair != (0.0, math.inf)]
    n = len({configuration for configuration, pair in every if not math.isinf(pair[1])})
    low, high = (
        max((low for _, (low, _) in every), default=0.0),
        min((high for _, (_, high) in every), default=math.inf),
    )
    known = n >= 2 and low < high
    return {
        "fitted_n": n,
        "fitted_low_gib": low / GIB if known else None,
        "fitted_high_gib": high / GIB if known else None,
    }
