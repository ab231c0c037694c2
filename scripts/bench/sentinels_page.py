"""The page on what the sentinels tell, as Markdown."""

from collections.abc import Sequence
from pathlib import Path

from bench.sections import with_section
from bench.sentinels import BOUNDS, LEAST, Agreement, Drift, Flags, Kind
from speedbump.analyse.changes.busyness import BUSIER
from speedbump.analyse.curve import QUIET_SD
from speedbump.analyse.sentinels import LEVELS
from speedbump.measure.environment import OTHERS_SHARE, SENTINEL_DRIFT

HEAD = f"""# What the sentinels tell

Written by `scripts/bench_sentinels.py`; a section for each machine and device, replaced when the script runs there
again. Before and after each cell run two fixed pieces of work: matrix products, which the device bounds, and small
operations, which the host bounds, as it can bound decoding.

- *Drift*: a sentinel took {SENTINEL_DRIFT:g} times as long after the cell as before, or the reverse. The pipeline flags
  such a cell.
- *Level*: its mean of before and after lies as far from the middle of the quiet cells. The pipeline compares the time
  before a cell with the best that the sentinel ever took on this machine, stack and device, in any study:
  {LEVELS["sentinel"]:g} times that disturb the cell, of the host's {LEVELS["host_sentinel"]:g} times.
- *Others*: other processes used more than {OTHERS_SHARE:.0%} of the cores, as far as the system reports them. The
  pipeline flags such a cell.

Of a curve most of whose lengths were disturbed nothing is called: it is *undetermined, the machine was busy*. Where
fewer were, those that took longer than the quiet ones lead to expect are set aside, and the rest is judged. Two stacks
whose sentinels lie {BUSIER["sentinel"]:g} times apart (the host's {BUSIER["host_sentinel"]:g}) cannot be compared:
*can't tell, the machine was busier*. With `limits: {{patience_s: 600}}`, or `--config patience_s=600`, a cell starts
when its sentinels are near their best, or after ten minutes. A machine that no run has yet seen at rest has no best to
compare with: a load that stays the same throughout its first study shows in the flags alone.
"""


def render_section(place: str, circumstances: str, kinds: Sequence[Kind], quiet: Sequence[Agreement]) -> str:
    """Of one machine and device. ``quiet``: of its quiet cells."""
    signs = [f"{sign} of the {bound}'s" for sign in ("drift", "level") for bound in BOUNDS]
    lines = [f"## {place}", "", circumstances, ""]
    lines += [f"| beside | cells | latency | {' | '.join(signs)} | others |", f"|---|{'---:|' * (3 + len(signs))}"]
    for kind in kinds:
        told = [*kind.drift.values(), *kind.level.values(), kind.others]
        lines.append(f"| {kind.kind} | {kind.cells} | {kind.slowdown:.2f}x | {' | '.join(map(str, told))} |")
    if quiet:
        lines += [
            "",
            f"With nothing beside, standard deviations of logarithms (a quiet machine's: up to {QUIET_SD:g}):",
        ]
    lines += [f"{found.bound}'s sentinel {found.sentinel_sd:.3f}, latency {found.latency_sd:.3f}." for found in quiet]
    return "\n".join(lines)


def render_page(
    page: Path,
    section: str,
    recorded: Sequence[tuple[str, Agreement]],
    flagged: Sequence[tuple[str, Flags]],
    within: Sequence[tuple[str, Drift]],
) -> str:
    """The whole page: the sections it has of other machines, the new one, and what was recorded, by its file."""
    return with_section(page, HEAD, section, "\n\n".join([_between(recorded), _flagged(flagged), _within(within)]))


def _between(recorded: Sequence[tuple[str, Agreement]]) -> str:
    rows = [
        (file, found.bound, found.processes, found.latency_sd, found.sentinel_sd, f"{found.correlation:.2f}")
        for file, found in recorded
    ]
    return (
        "## Recorded curves\n\nStandard deviations of logarithms, over the processes of all series that have "
        f"{LEAST} and more: does the sentinel's mean of before and after tell which process lies off its curve's trend?"
        "\nA sentinel that is not listed did not run.\n\n"
        + _table("file, bound by the, processes, latency over trend, sentinel, correlation", rows)
    )


def _flagged(flagged: Sequence[tuple[str, Flags]]) -> str:
    rows = [(file, found.flagged, found.flagged_sd, found.others, found.others_sd) for file, found in flagged]
    return (
        "Of the same series, the processes in which both sentinels ran, where some but not all were flagged as "
        "disturbed: how many, and how far they and the others lie off the trend.\n\n"
        + _table("file, flagged, latency over trend, others, latency over trend", rows)
    )


def _within(within: Sequence[tuple[str, Drift]]) -> str:
    rows = [
        (file, found.bound, found.processes, found.latency_sd, found.median_sd, f"{found.correlation:.2f}")
        for file, found in within
    ]
    return (
        "Of the same files, within a process: how far its requests lie apart, how far medians of so many would lie "
        "apart for that alone (what processes lie apart beyond it, they differ by themselves), and whether the "
        "sentinel's drift from before to after goes with the requests', from the first measured one to the last.\n\n"
        + _table("file, bound by the, processes, latency, of its median, correlation", rows)
    )


def _table(columns: str, rows: Sequence[Sequence[object]]) -> str:
    """Markdown; fractions to three digits."""
    names = columns.split(", ")
    rules = ["---" if name in ("file", "bound by the") else "---:" for name in names]
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row] for row in rows]
    head = f"| {' | '.join(names)} |\n|{'|'.join(rules)}|"
    return "\n".join([head, *(f"| {' | '.join(row)} |" for row in cells)])
