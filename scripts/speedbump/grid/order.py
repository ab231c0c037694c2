"""The order in which cells are measured: random but seeded."""

import hashlib


def measuring_order(cell_id: str, seed: int) -> int:
    """A job priority that shuffles cells, so that a slow quarter of an hour does not look like a slow regime."""
    return int(hashlib.sha256(f"{seed}:{cell_id}".encode()).hexdigest()[:8], 16)
