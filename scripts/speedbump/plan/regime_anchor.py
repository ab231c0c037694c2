"""A study around a known regime: what its experiments leave out is the regime's series', the budgets its edges."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speedbump.grid.axes import DEFAULTS, NOT_IN_SERIES, unplain_axes
from speedbump.grid.study import Around, Axes, Experiment, Study, StudyError, named_axes
from speedbump.plan.known_regimes import N_NORMAL, KnownSeries, deciding_budgets, read_known

GRID = 16
"""Tokens between the budgets from which normal and inner ones are chosen."""

REPLAY_ROUNDS = 3
"""How often a replay comes by every budget."""


@dataclass(frozen=True)
class Centre:
    """axes: of the reference, budget and process left out.  normal, slow: budgets in tokens; slow is empty without a
    regime.  source: where they are from, in words.
    """

    axes: dict[str, Any]
    normal: list[int]
    slow: list[int]
    source: str

    @property
    def budgets(self) -> list[int]:
        """All of them, in order."""
        return sorted({*self.normal, *self.slow})

    @property
    def pair(self) -> list[int]:
        """A budget within the regime and the normal one nearest to it; without a regime, two far apart."""
        if not self.slow:
            return sorted({self.normal[0], self.normal[-1]})
        inside = self.slow[len(self.slow) // 2]
        return sorted([inside, min(self.normal, key=lambda n_gen: (abs(n_gen - inside), n_gen))])


def place_around(study: Study, file: str, machine: str, stack: str) -> tuple[Study, Centre | None]:
    """The study with its experiments filled in, and what they are around; as it is where it names no regime.

    Experiments are repeated for the study's blocks. Raises StudyError.
    """
    centre = find_centre(study.around, file, machine, stack) if study.around else None
    experiments = list(study.experiments)
    if centre:
        own = [experiment for experiment in experiments if "n_gen" in named_axes(experiment)]
        _refuse_choice(own, "chooses among the regime's budgets, and n_gen names others; give one of them", file)
        experiments = [_fill(experiment, centre, study.protocol.seed, file) for experiment in experiments]
    else:
        _refuse_choice(experiments, "needs around in the study", file)
    if study.blocks:
        blocks = list(range(1, study.blocks + 1))
        experiments = [
            experiment.model_copy(update={"process": named_axes(experiment).get("process", blocks)})
            for experiment in experiments
        ]
    return study.model_copy(update={"experiments": experiments}), centre


def _refuse_choice(experiments: list[Experiment], why: str, file: str) -> None:
    """Where one of them says which of the regime's budgets it takes."""
    for experiment in experiments:
        for key in ("keep", "at"):
            if key in experiment.model_fields_set:
                raise StudyError(f"{file}: experiments[{experiment.name}].{key}: {why}")


def around_in_words(centre: Centre | None) -> list[str]:
    """A line on what a study is around; none where it is around nothing."""
    if centre is None:
        return []
    what = f"around {centre.axes['model']} on {centre.axes['device']}, from {centre.source}"
    if not centre.slow:
        return [f"{what}: no slow regime is known; the budgets {_listed(centre.normal)} show what each arm costs"]
    return [f"{what}: slow at {_listed(centre.slow)}, normal at {_listed(centre.normal)}"]


def _listed(budgets: list[int]) -> str:
    return ", ".join(map(str, budgets))


def find_centre(around: Around, file: str, machine: str, stack: str) -> Centre:
    """The regime that the study names, or that the named study found here in a plain curve; the worst of several.

    Without a regime its curve of the machine counts, with a few budgets spread over it. Raises StudyError.
    """
    if around.regime:
        given = around.regime
        axes = {name: getattr(given, name) for name in ("model", "device", "n_prompt", "instrument")}
        return Centre(axes, sorted(given.normal), sorted(given.slow), "the study")
    assert around.study is not None
    try:
        known = read_known(Path(around.study))
    except StudyError as error:
        raise StudyError(f"{file}: around.study: {error}") from None
    here = [series for series in known if series.machine == machine]
    here = [series for series in here if series.lengths_measured.n_gen_max]
    if not here:
        raise StudyError(f"{file}: around.study: {around.study} has no curve of this machine: run it here first")
    plain = [series for series in here if not unplain_axes(series.axes)]
    if not plain:
        named = sorted({name for series in here for name in unplain_axes(series.axes)})
        raise StudyError(
            f"{file}: around.study: no curve of this machine in {around.study} leaves {', '.join(named)} at the "
            "default: arms are compared with one that does"
        )
    plain = [series for series in plain if series.stack == stack] or plain
    chosen = max(plain, key=lambda series: max((regime.slowdown for regime in series.regimes), default=0.0))
    return _centre_of(chosen, around)


def _centre_of(series: KnownSeries, around: Around) -> Centre:
    first, last = series.lengths_measured.n_gen_min, series.lengths_measured.n_gen_max
    assert first is not None
    assert last is not None
    grid = sorted({first, last, *range(-(-first // GRID) * GRID, last + 1, GRID)})
    n_normal = around.n_normal if series.regimes else max(around.n_normal, N_NORMAL)
    budgets = deciding_budgets(series.regimes, grid, n_normal, around.n_inside)
    inside = {n for n in budgets for regime in series.regimes if regime.onset_high <= n <= regime.recovery_low}
    axes = {name: value for name, value in series.axes.items() if name in DEFAULTS and name not in NOT_IN_SERIES}
    return Centre(axes, [n for n in budgets if n not in inside], sorted(inside), f"{around.study}, {series.name}")


def _fill(experiment: Experiment, centre: Centre, seed: int, file: str) -> Experiment:
    named = named_axes(experiment)
    missing: dict[str, Any] = {name: [value] for name, value in centre.axes.items() if name not in named}
    if "n_gen" not in named:
        missing["n_gen"] = budgets = centre.pair if experiment.at == "pair" else centre.budgets
        if experiment.keep == "total":
            totals = [n_gen + centre.axes["n_prompt"] for n_gen in budgets]
            missing |= _equal_totals(experiment, named.get("n_prompt", []), totals, file)
    if named.get("order", []).count("replay") and experiment.workload is None and experiment.lengths is None:
        lengths = centre.budgets * REPLAY_ROUNDS
        random.Random(seed).shuffle(lengths)
        missing["lengths"] = lengths
    return experiment.model_copy(update=missing)


def _equal_totals(experiment: Experiment, prompts: list[int], totals: list[int], file: str) -> dict[str, Any]:
    """A block for each prompt, whose budgets come to the totals with it."""
    where = f"{file}: experiments[{experiment.name}].keep"
    if not prompts or experiment.include:
        raise StudyError(f"{where}: total needs n_prompt, and no include")
    blocks = []
    for n_prompt in prompts:
        budgets = [total - n_prompt for total in totals]
        if min(budgets) < 1:
            raise StudyError(f"{where}: prompt {n_prompt} leaves no token of the shortest total; name shorter prompts")
        blocks.append({"n_prompt": [n_prompt], "n_gen": budgets})
    first, *others = blocks
    return {**first, "include": [Axes.model_validate(block) for block in others]}
