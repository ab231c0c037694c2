"""Everything that can be seen of a reference curve and its arms that tells the hypotheses apart."""

from collections.abc import Callable, Mapping

from speedbump.analyse.mechanism import counters, latencies, onsets
from speedbump.analyse.mechanism.sight import Observation, Sight

OBSERVABLES: Mapping[str, Callable[[Sight], Observation]] = {
    observable.__name__: observable
    for observable in (
        latencies.regime,
        latencies.recovery_seen,
        latencies.first_pass,
        latencies.first_pass_emptied,
        latencies.first_pass_eager,
        latencies.first_in_regime,
        latencies.emptied_kept,
        latencies.static_kept,
        latencies.rest_kept,
        latencies.rest_gained,
        latencies.ballast_gained,
        latencies.watermark_moved,
        latencies.running_slowdown,
        latencies.order_matters,
        latencies.position_agreement,
        counters.driver_power,
        counters.pool_settles,
        counters.driver_drop,
        counters.swap_grown,
        counters.sentinel_share,
        onsets.pool_at_onset,
        onsets.length_at_onset,
    )
}
"""By name; the docstring says what the number is."""


def observe(sight: Sight) -> dict[str, Observation]:
    """Every observation, by the name of its observable."""
    return {name: look(sight) for name, look in OBSERVABLES.items()}
