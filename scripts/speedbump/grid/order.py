"""The order in which cells are measured: random but seeded, and where a study asks for it in blocks."""

import hashlib

MOST_BLOCKS = 100
RISKY = 2**31 - 1
"""Largest priority of a cell at risk, within its block."""


def measuring_order(cell_id: str, seed: int, block: int = MOST_BLOCKS, risky_tokens: int | None = None) -> int:
    """A job priority that shuffles cells, so that a slow quarter of an hour does not look like a slow regime.

    risky_tokens: length of a cell that needs most of the memory, or more. Such cells come after the others of their
    block, upwards in length, so that a curve is left before it swaps at every length.

    block: cells of a smaller number come first, in a random order among themselves. With a repeat of every process
    in each block, what drifts over hours is the same for all that is compared.
    """
    shuffled = int(hashlib.sha256(f"{seed}:{cell_id}".encode()).hexdigest()[:8], 16)
    turn = RISKY - min(risky_tokens, RISKY) if risky_tokens is not None else RISKY + 1 + (shuffled >> 1)
    return turn + (max(0, MOST_BLOCKS - block) << 32)
