"""What bounds a cell without belonging to its identity."""

import json
from dataclasses import asdict, dataclass, field

from speedbump.measure.guard import Guard


@dataclass(frozen=True)
class Limits:
    """cell_limit_s: seconds for the whole cell, the wait for the device apart.  guard: memory and disk.
    allow_battery: measure on battery power too; the cell is flagged.
    """

    cell_limit_s: float = 7200.0
    guard: Guard = field(default_factory=Guard)
    allow_battery: bool = False


def parse_limits(text: str) -> Limits:
    """From JSON; what it leaves out keeps its default. Raises ValueError on one line."""
    try:
        given = json.loads(text)
        guard = Guard(**given.pop("guard", {}))
        limits = Limits(guard=guard, **given)
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"--limits: {error}") from error
    numbers = [limits.cell_limit_s, *asdict(guard).values()]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise ValueError("--limits: every limit is a number")
    return limits
