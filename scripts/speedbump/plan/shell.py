"""Words of the shell commands that rules run."""

import shlex
from collections.abc import Mapping

THREAD_VARIABLES = (
    *(f"{library}_NUM_THREADS" for library in ("OMP", "GOTO", "OPENBLAS", "MKL", "NUMEXPR")),
    "VECLIB_MAXIMUM_THREADS",
)
"""What Snakemake sets to 1 for every job."""


def words(*parts: str) -> str:
    """Words of a command, quoted for the shell, and for Snakemake, which fills in what stands in braces."""
    return shlex.join(parts).replace("{", "{{").replace("}", "}}")


def with_users_threads(environment: Mapping[str, str]) -> list[str]:
    """The beginning of a command that gets as many threads as its user set, or else as torch chooses."""
    own = [f"{name}={value}" for name, value in environment.items() if name in THREAD_VARIABLES]
    return ["env", *(f"-u{name}" for name in THREAD_VARIABLES), *own]
