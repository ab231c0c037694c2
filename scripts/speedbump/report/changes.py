"""What an upgrade changed, as the tables of changes give it, with the curves it is said of."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import polars as pl

from speedbump.grid.stack import stack_order
from speedbump.report.curves import Curve, stack_titles
from speedbump.report.study import Study
from speedbump.report.words import listing, plural, prose
from speedbump.tables import CHANGE_WORDS

PHRASES = {
    "new": ("has a new slow regime", "have a new slow regime"),
    "slower": ("is slower", "are slower"),
    "moved": ("has a slow regime that moved", "have a slow regime that moved"),
    "gone": ("has lost a slow regime", "have lost a slow regime"),
    "faster": ("is faster", "are faster"),
    "can't tell": ("cannot be told", "cannot be told"),
    "unchanged": ("is unchanged", "are unchanged"),
}
assert set(PHRASES) == set(CHANGE_WORDS)
MACHINE_PHRASES = PHRASES | {
    "new": ("has a slow regime that the other has not", "have a slow regime that the other has not"),
    "moved": ("has its slow regime elsewhere", "have their slow regime elsewhere"),
    "gone": ("lacks a slow regime that the other has", "lack a slow regime that the other has"),
    "unchanged": ("shows no difference", "show no difference"),
}


@dataclass(frozen=True)
class Change:
    """A curve in two places. row: of tables.SERIES_CHANGES; regimes, budgets: of the tables of those names.

    name: of the curve, without what is compared.
    titles: of the two stacks, or machines, in as few words as tell them apart.  between_stacks: of one machine.
    neighbours: no other stack lies between the two.  newest: they are the two newest stacks of the machine, measured or
    not.
    """

    old: Curve
    new: Curve
    row: dict[str, Any]
    regimes: Sequence[dict[str, Any]]
    budgets: Sequence[dict[str, Any]]
    name: str
    titles: tuple[str, str]
    between_stacks: bool
    neighbours: bool
    newest: bool

    @property
    def word(self) -> str:
        return str(self.row["verdict"])

    @property
    def sentence(self) -> str:
        return prose(self.row["sentence"])


def every_change(study: Study) -> list[Change]:
    """Of every curve, between every two stacks of a machine, and every two machines; the worst of the newest first."""
    ordered = stacks_by_machine(study)
    titles = stack_titles({curve.row["stack"] for curve in study.curves})
    curves = {curve.series: curve for curve in study.curves}
    regimes, budgets = (_by_pair(frame) for frame in (study.regime_changes, study.budget_changes.sort("n_gen")))
    found = []
    for row in study.series_changes.iter_rows(named=True):
        pair = (row["old"], row["new"])
        between_stacks = row["old_machine"] == row["new_machine"]
        places = (row["old_stack"], row["new_stack"])
        of_machine = list(pairwise(ordered[row["new_machine"]]))
        elsewhere = set() if between_stacks else {row["new_machine"]}
        found.append(
            Change(
                curves[row["old"]],
                curves[row["new"]],
                row,
                regimes.get(pair, []),
                budgets.get(pair, []),
                _spoken(curves[row["new"]], elsewhere | {_own_titles(study, row["new_machine"])[row["new_stack"]]}),
                (titles[places[0]], titles[places[1]]) if between_stacks else (row["old_machine"], row["new_machine"]),
                between_stacks,
                between_stacks and places in of_machine,
                between_stacks and places == of_machine[-1],
            )
        )
    return sorted(found, key=_rank)


def stacks_by_machine(study: Study) -> dict[str, list[str]]:
    """Those with a curve, and those that the study measures, whether or not anything came of them; the newest last."""
    stacks: dict[str, set[str]] = defaultdict(set)
    for curve in study.curves:
        stacks[curve.row["machine"]].add(curve.row["stack"])
    if stacks.get(study.about.get("machine", "")):
        stacks[study.about["machine"]].update(study.about.get("stacks", ()))
    return {machine: sorted(own, key=stack_order) for machine, own in stacks.items()}


@dataclass(frozen=True)
class Lost:
    """A curve of a stack that a newer stack of its machine lacks. newest: as of a Change."""

    name: str
    machine: str
    old_stack: str
    new_stack: str
    newest: bool


def lost_curves(study: Study) -> list[Lost]:
    """Of every two stacks of a machine the curves that were measured on the older alone."""
    paired = {(row["old"], row["new_stack"]) for row in study.series_changes.iter_rows(named=True)}
    found = []
    for machine, stacks in stacks_by_machine(study).items():
        for old, new in combinations(stacks, 2):
            found += [
                Lost(_spoken(curve, {_own_titles(study, machine)[old]}), machine, old, new, [old, new] == stacks[-2:])
                for curve in study.curves
                if (curve.row["machine"], curve.row["stack"]) == (machine, old)
                and curve.verdict != "not measured"
                and (curve.series, new) not in paired
            ]
    return found


def _own_titles(study: Study, machine: str) -> dict[str, str]:
    return stack_titles({curve.row["stack"] for curve in study.curves if curve.row["machine"] == machine})


def _spoken(curve: Curve, said: set[str]) -> str:
    """The curve's name without what is said beside it."""
    return replace(curve, apart=tuple(words for words in curve.apart if words not in said)).spoken


def changes_between_stacks(study: Study) -> list[Change]:
    """Those between two neighbouring stacks of a machine."""
    return [change for change in every_change(study) if change.neighbours]


def _rank(change: Change) -> tuple[Any, ...]:
    return (not change.newest, CHANGE_WORDS.index(change.word), -abs((change.row["shift"] or 1.0) - 1), change.new.key)


def _by_pair(frame: pl.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in frame.iter_rows(named=True):
        rows[row["old"], row["new"]].append(row)
    return rows


def upgrade_sentence(changes: Sequence[Change]) -> str:
    """What the newest stack changed against the one before it; empty where there is no second stack."""
    newest = [change for change in changes if change.newest]
    if not newest:
        return ""
    names = {change.titles for change in newest}
    between = (
        f"{newest[0].titles[1]} against {newest[0].titles[0]}"
        if len(names) == 1
        else "The newest stacks against those before them"
    )
    if len(newest) == 1:
        return f"{between}: {newest[0].name} {PHRASES[newest[0].word][0]}: {newest[0].sentence}"
    return f"{between}: {_counts(newest, PHRASES)}"


def machine_sentences(changes: Sequence[Change]) -> list[str]:
    """One for every two machines: how many curves differ, and in what."""
    between: dict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in changes:
        if not change.between_stacks:
            between[change.titles].append(change)
    return [f"{new} against {old}: {_counts(own, MACHINE_PHRASES)}" for (old, new), own in sorted(between.items())]


def _counts(changes: Sequence[Change], phrases: dict[str, tuple[str, str]]) -> str:
    counts = Counter(change.word for change in changes)
    parts = [f"{counts[word]} {phrases[word][counts[word] > 1]}" for word in CHANGE_WORDS if counts[word]]
    return f"of {plural(len(changes), 'curve')}, {listing(parts)}"
