"""The order in which cells are measured: random but seeded, and where a study asks for it in blocks."""

import hashlib

MOST_BLOCKS = 100


def measuring_order(cell_id: str, seed: int, block: int = MOST_BLOCKS) -> int:
    """A job priority that shuffles cells, so that a slow quarter of an hour does not look like a slow regime.

    block: cells of a smaller number come first, in a random order among themselves. With a repeat of every process
    in each block, what drifts over hours is the same for all that is compared.
    """
    shuffled = int(hashlib.sha256(f"{seed}:{cell_id}".encode()).hexdigest()[:8], 16)
    return shuffled + (max(0, MOST_BLOCKS - block) << 32)
