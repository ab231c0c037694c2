"""Whose swap it was: that of a cell's own processes, which is its result, or another's, which disturbs it."""

from dataclasses import dataclass

NOTICED_BYTES = 64 << 20
"""Growth of swap in use that counts as swapping."""
NEAR_SHARE = 1 / 4
"""A cell can cause swapping when what it needed came within this share of the memory of what was there: both macOS and
Linux compress and swap idle pages before the last one is used."""


@dataclass(frozen=True)
class Demand:
    """What a cell asked of the machine's memory, in bytes.

    total: of the machine.  available_before: what nobody held before the cell began.  needed: most that its processes
    held at a time.  swapped: most by which swap in use grew.  others_grew: by how much more all others held in memory
    and swap together when the cell was over: pages that only moved from one to the other are no growth.
    """

    total_bytes: int
    available_before_bytes: int
    needed_bytes: int
    swapped_bytes: int
    others_grew_bytes: int

    @property
    def presses(self) -> bool:
        """Whether the cell itself can be why the system compressed or swapped."""
        return self.needed_bytes + NEAR_SHARE * self.total_bytes >= self.available_before_bytes


def own_swap_bytes(demand: Demand) -> int:
    """How much of the swap growth the cell caused: nothing where it did not press, else its part of all that was asked
    for meanwhile, and never more than it needed.
    """
    if not demand.presses or demand.swapped_bytes <= 0:
        return 0
    asked_bytes = demand.needed_bytes + max(0, demand.others_grew_bytes)
    return min(round(demand.swapped_bytes * demand.needed_bytes / max(asked_bytes, 1)), demand.needed_bytes)


def others_swap_bytes(demand: Demand) -> int:
    """The rest of it."""
    return max(0, demand.swapped_bytes) - own_swap_bytes(demand)
