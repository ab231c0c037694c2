"""The order in which cells are measured: random but seeded, and where a study asks for it in blocks."""

import hashlib


def measuring_order(cell_id: str, seed: int, block: int = 0) -> int:
    """A job priority that shuffles cells, so that a slow quarter of an hour does not look like a slow regime.

    block: cells of a smaller number come first, in a random order among themselves. With a repeat of every process
    in each block, what drifts over hours is the same for all that is compared.
    """
    return int(hashlib.sha256(f"{seed}:{cell_id}".encode()).hexdigest()[:8], 16) - (block << 32)
