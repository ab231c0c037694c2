"""The page that says how well two stacks are told apart."""

from collections.abc import Callable, Iterable

Row = dict[str, float | str]

HEAD = """# How well an upgrade is told from chance

Two sessions of simulated series of known truth, {pairs} pairs a scenario, half of that where something changed. Made by

    python scripts/bench_changes.py --pairs {pairs} --seed {seed} --page docs/upgrade.md

The figures come out the same again: every pair is drawn from its scenario's name, its number and the seed.{chosen}
`scripts/bench/upgrades.py` lists the scenarios; `scripts/speedbump/analyse/changes/` is what is tried.

- *Changed*: budgets called slower or faster. Where nothing changed, the goal is at most 1 % in every scenario.
- *Unclear*: budgets that differ by more than noise, but as a disturbance of one process would have it. They are named,
  to be measured again in another process, and are not called changed.
- *Series changed*: a verdict of new, slower, moved, gone or faster. *Can't tell*: neither that nor unchanged.
- Names: *s* is the standard deviation of requests, *p* of whole processes, *n* the number of budgets, each measured in
  one process of five requests unless said otherwise.

What to know of it:

- A single budget measured in one process is called slower from some ten times on. Below, it is unclear: one process can
  be slow by chance. A second process of it settles that.
- Where everything is slower and the fixed workload too, the verdict is *can't tell*: the machine may have been slower,
  or the stack's matrix products are. Measuring both stacks again, one after the other, settles it. From 1.4 times on
  nothing is told of the two, whatever their latencies: the machine was busier on one side.
- Sessions that differ by more than some 3 % unseen by the fixed workload, and machines on which one process in twenty
  is slow, give false verdicts of series more often, as the table says.

"""


def render_page(rows: list[Row], pairs: int, seed: int = 0) -> str:
    """The whole page."""
    by_kind: dict[str, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(str(row["scenario"]).split("/")[0], []).append(row)
    null = [row for kind in ("noise", "drift", "odd", "regime", "regime, few budgets") for row in by_kind.get(kind, [])]
    chosen = " The method's\nnumbers were chosen on other seeds, nothing on this one." if seed else ""
    parts = [HEAD.format(pairs=pairs, seed=seed, chosen=chosen)]
    if null:
        parts += ["## A stack against itself\n", _worst(null), _table(null, NULL)]
    if "recorded" in by_kind:
        parts += [
            "## A stack against itself, in recorded noise\n",
            "Two sessions made of the processes of a recorded one (`tests/recorded/README.md`), moved to other budgets "
            "at random.\n",
            _table(by_kind["recorded"], NULL),
        ]
    if "busy" in by_kind:
        parts += [
            "## A load during one of the two sessions\n",
            "The machine did other work during the session of the old or of the new stack: from some moment on, until "
            "one, or\nthroughout. *Unseen*: its counters do not show it, only the fixed workload does.\n",
            _goals(by_kind["busy"]),
            _table(by_kind["busy"], NULL),
        ]
    if "slower" in by_kind:
        parts += [
            "## What slow-down is found\n",
            "Share of series called slower, or to have a new slow regime; in brackets those that cannot be told.\n"
            "*Quiet*: 2 % between requests and between processes; *usual*: 5 %.\n",
            _power(by_kind["slower"]),
        ]
    if "changed" in by_kind:
        parts += ["## Regimes that changed\n", _table(by_kind["changed"], CHANGED)]
    return "\n".join(parts)


Columns = tuple[tuple[str, Callable[[Row], str]], ...]


def _share(column: str) -> Callable[[Row], str]:
    return lambda row: f"{100 * float(row[column]):.1f} %"


NULL: Columns = (
    ("budgets changed", lambda row: f"{100 * float(row['budgets_changed']):.2f} %"),
    ("unclear", lambda row: f"{100 * float(row['budgets_unclear']):.2f} %"),
    ("series changed", _share("found")),
    ("can't tell", _share("cannot_tell")),
)
CHANGED: Columns = (
    ("said right", _share("right")),
    ("can't tell", _share("cannot_tell")),
    ("series changed", _share("found")),
)


def _table(rows: Iterable[Row], columns: Columns) -> str:
    lines = [f"| scenario | pairs | {' | '.join(name for name, _ in columns)} |", f"|{' --- |' * (2 + len(columns))}"]
    for row in rows:
        scenario = str(row["scenario"]).partition("/")[2] if "recorded" in str(row["scenario"]) else row["scenario"]
        lines.append(f"| {scenario} | {row['pairs']} | {' | '.join(cell(row) for _, cell in columns)} |")
    return "\n".join(lines) + "\n"


def _worst(rows: list[Row]) -> str:
    worst = max(rows, key=lambda row: float(row["budgets_changed"]))
    mean = sum(float(row["budgets_changed"]) for row in rows) / len(rows)
    return (
        f"Changed: {100 * mean:.2f} % of budgets in the mean of {len(rows)} scenarios, "
        f"{100 * float(worst['budgets_changed']):.2f} % in the worst ({worst['scenario']}).\n"
    )


def _goals(rows: list[Row]) -> str:
    """How the two goals of sessions beside a load stand."""
    changed = max(rows, key=lambda row: float(row["found"]))
    throughout = [row for row in rows if "/throughout/" in str(row["scenario"])]
    told = min(throughout, key=lambda row: float(row["cannot_tell"]), default=None)
    lines = [_goal("Called changed, at most", 0.01, "found", changed, float(changed["found"]) <= 0.01)]
    if told is not None:
        met = float(told["cannot_tell"]) >= 0.99
        lines.append(_goal("Can't tell where it lasted throughout, at least", 0.99, "cannot_tell", told, met))
    return "\n".join(lines) + "\n"


def _goal(name: str, limit: float, column: str, worst: Row, met: bool) -> str:
    return (
        f"- {name} {100 * limit:g} %: {'yes' if met else 'no'}, {100 * float(worst[column]):.1f} % in the worst "
        f"({worst['scenario']})."
    )


def _power(rows: list[Row]) -> str:
    """A line a kind, noise and number of budgets; a column a factor. Names: slower/kind/noise/n/factor."""
    names = [str(row["scenario"]).split("/")[1:] for row in rows]
    factors = list(dict.fromkeys(name[-1] for name in names))
    lines: dict[str, dict[str, str]] = {}
    found: dict[str, str] = {}
    for row, name in zip(rows, names, strict=True):
        line = " | ".join(name[:-1])
        lines.setdefault(line, {})[name[-1]] = (
            f"{100 * float(row['slower']):.0f} ({100 * float(row['cannot_tell']):.0f})"
        )
        if float(row["slower"]) >= 0.9:
            found.setdefault(line, f"{name[-1]}x")
    head = f"| slower | noise | budgets | {' | '.join(f'{f}x' for f in factors)} | 90 % from |"
    body = [
        f"| {line} | {' | '.join(cells.get(f, '') for f in factors)} | {found.get(line, 'none')} |"
        for line, cells in lines.items()
    ]
    return "\n".join([head, f"|{' --- |' * (4 + len(factors))}", *body]) + "\n"
