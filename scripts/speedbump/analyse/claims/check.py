"""The table of claims: every claim on every body of evidence."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from speedbump.analyse.claims import cache, lengths, memory, reach, regimes
from speedbump.analyse.claims.answer import CANNOT_TELL, Answer, digits
from speedbump.analyse.claims.evidence import AbsentError, BusyError, Evidence
from speedbump.tables import CLAIMS, check_table

CHECKS: Mapping[str, Callable[[Evidence], Answer]] = {
    "C1": regimes.latency_is_not_monotone,
    "C2": regimes.medium_is_slow_at_512,
    "C3": regimes.regime_is_wide_with_sharp_edges,
    "C4": regimes.entry_is_sharp,
    "C5": regimes.recovery_is_sharp,
    "C6": regimes.prefill_is_not_what_is_slow,
    "C7": cache.cache_pays_off_outside,
    "C8": cache.pay_off_collapses_inside,
    "C9": cache.cacheless_latency_falls,
    "C10": cache.outputs_are_the_same,
    "C11": memory.live_memory_grows_smoothly,
    "C12": memory.system_memory_stays_high,
    "C13": reach.cpu_is_smooth,
    "C14": reach.cuda_is_smooth,
    "C15": reach.other_families_do_too,
    "C16": lengths.prompt_moves_the_onset,
    "C17": lengths.prompt_does_not_move_the_recovery,
    "C18": reach.smaller_chip_is_slow_sooner,
    "C19": reach.anomaly_persists_over_versions,
    "C20": regimes.larger_models_enter_earlier,
    "C21": reach.larger_models_gain_more_on_mps,
}
"""A claim's rule is its function's docstring."""

NOT_MEASURED = "not measured"
NOT_TABULATED = "stated, not tabulated"


def read_claims(reference: Path) -> list[dict[str, Any]]:
    """The paper's claims, in its order. Raises ValueError when one has no check or the other way round."""
    claims = pl.read_csv(reference / "hendria2026_claims.csv", infer_schema_length=0)
    if set(claims["claim_id"]) != set(CHECKS):
        raise ValueError(f"{reference}: the claims there are not those that are checked")
    return claims.to_dicts()


def check_claims(
    claims: Iterable[Mapping[str, Any]], evidence: Evidence, machine: str | None = None, stack: str | None = None
) -> pl.DataFrame:
    """tables.CLAIMS for one body of evidence; machine and stack say where it was measured."""
    rows = []
    for claim in claims:
        check = CHECKS[claim["claim_id"]]
        try:
            answer = check(evidence)
        except BusyError as busy:
            answer = Answer(CANNOT_TELL, str(busy))
        except AbsentError as absent:
            answer = Answer(NOT_TABULATED if evidence.published else NOT_MEASURED, str(absent))
        low, high = answer.interval or (None, None)
        rows.append(
            {
                **claim,
                "origin": "published" if evidence.published else "measured",
                "machine": machine,
                "stack": stack,
                "outcome": answer.outcome,
                "value": answer.between.join(digits(value) for value in answer.values) or None,
                "values": list(answer.values),
                "low": low,
                "high": high,
                "rule": " ".join((inspect.getdoc(check) or "").split()),
                "why": answer.why,
            }
        )
    return check_table(pl.DataFrame(rows, schema_overrides=CLAIMS.schema), CLAIMS, "claims")
