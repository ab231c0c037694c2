"""What changed between two stacks, on tables whose truth is known."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bench.requests import Run, requests_table
from bench.upgrades import Count, compare_drawn, recorded_files, resampled, upgrades
from speedbump.analyse.brackets import find_brackets
from speedbump.analyse.changes.compare import compare_places
from speedbump.analyse.changes.contrast import p_value
from speedbump.analyse.changes.extents import own_states
from speedbump.analyse.changes.places import pair_places, pair_series
from speedbump.analyse.changes.verdict import holm
from speedbump.analyse.curve import from_repeats
from speedbump.analyse.segments import dissect
from speedbump.grid.axes import DEFAULTS
from speedbump.tables import (
    BUDGET_CHANGES,
    BUDGET_WORDS,
    CHANGE_WORDS,
    REGIME_CHANGES,
    REGIME_WORDS,
    REQUESTS,
    SERIES_CHANGES,
    check_table,
    read_table,
)

OLD, NEW = "linux-6_torch-2.9.0_transformers-5.0.0", "linux-6_torch-2.10.0_transformers-5.0.0"
RECORDED = Path(__file__).parents[1] / "recorded"
GRID = tuple(range(128, 769, 32))
REGIME = range(384, 545)


def runs(
    stack, factor=lambda n: 1.0, grid=GRID, machine="m", sentinel=0.03, seed=0, stopped=(), processes=1, **changes
):
    """Runs of one series: 0.1 s and 10 ms a token, 3 % between requests and between processes."""
    rng = np.random.default_rng([seed, *stack.encode(), *machine.encode()])
    made = []
    for n_gen in grid:
        for process in range(1, processes + 1):
            level = (0.1 + 0.01 * n_gen) * factor(n_gen) * math.exp(rng.normal(0, 0.03))
            around = {
                name: sentinel * math.exp(rng.normal(0, 0.03)) for name in ("sentinel_before_s", "sentinel_after_s")
            }
            told = {"stack": stack, "machine": machine, **around, **changes}
            known = {"phase": "measured", "process": process, "changes": tuple(told.items())}
            if n_gen in stopped:
                known |= {"status": "stopped", "lower_bound": True}
            latencies = tuple(float(v) for v in level * np.exp(rng.normal(0, 0.03, 1 if n_gen in stopped else 5)))
            made.append(Run(f"{machine}.{stack}", n_gen, latencies, **known))
    return made


def slow(by=8.0, within=REGIME):
    return lambda n: by if n in within else 1.0


def changes(*parts):
    found = compare_places(requests_table([run for part in parts for run in part]))
    for frame, table in (
        (found.series, SERIES_CHANGES),
        (found.regimes, REGIME_CHANGES),
        (found.budgets, BUDGET_CHANGES),
    ):
        check_table(frame, table, table.name)
    assert set(found.series["verdict"]) <= set(CHANGE_WORDS)
    assert set(found.regimes["change"]) <= set(REGIME_WORDS)
    assert set(found.budgets["change"]) <= set(BUDGET_WORDS)
    return found


def test_a_stack_against_itself_is_unchanged():
    found = changes(runs(OLD), runs(NEW))
    row = found.series.row(0, named=True)
    assert (row["old_stack"], row["new_stack"]) == (OLD, NEW), "2.10 is newer than 2.9"
    assert (row["verdict"], row["n_budgets"], row["next"]) == ("unchanged", len(GRID), None)
    assert row["shift_low"] < 1 < row["shift_high"]
    assert row["sentence"].startswith("no change at 21 budgets: normal ones take ")
    assert set(found.budgets["change"]) == {"unchanged"}


def test_a_regime_that_stays_is_the_same():
    found = changes(runs(OLD, slow()), runs(NEW, slow()))
    assert found.series["verdict"].item() == "unchanged"
    row = found.regimes.row(0, named=True)
    assert row["change"] == "same"
    assert (row["old_first"], row["old_last"], row["new_first"], row["new_last"]) == (384, 544, 384, 544)
    assert row["factor_low"] < 1 < row["factor_high"]


def test_a_regime_that_is_gone():
    found = changes(runs(OLD, slow()), runs(NEW))
    assert found.series["verdict"].item() == "gone"
    assert found.series["sentence"].item() == "the regime from 384 to 544 tokens is gone"
    assert found.budgets.filter(change="faster")["n_gen"].to_list() == list(range(384, 545, 32))
    ratio = found.budgets.filter(n_gen=416).row(0, named=True)
    assert ratio["low"] < 1 / 8 < ratio["high"]


def test_a_new_regime():
    found = changes(runs(OLD), runs(NEW, slow()))
    assert found.series["verdict"].item() == "new"
    assert found.regimes.row(0, named=True)["change"] == "new"
    assert "a new slow regime from 384 to 544 tokens, " in found.series["sentence"].item()


def test_an_edge_that_moved_by_so_many_tokens():
    found = changes(runs(OLD, slow()), runs(NEW, slow(within=range(448, 545))))
    row = found.regimes.row(0, named=True)
    assert row["change"] == "moved"
    assert (row["old_before"], row["old_first"], row["new_before"], row["new_first"]) == (352, 384, 416, 448)
    assert (row["onset_moved_low"], row["onset_moved_high"]) == (33, 95), "first slow: 353 to 384, then 417 to 448"
    assert row["recovery_moved_low"] is None
    assert "now begins 33 to 95 tokens later: it is from 448 to 544 tokens" in found.series["sentence"].item()


def test_an_edge_known_to_overlapping_brackets_has_not_moved():
    """The old stack knows the edge to one token, the new one to its step: 384 is slow in both."""
    fine = tuple(sorted({*GRID, *range(353, 385)}))
    row = changes(runs(OLD, slow(within=range(370, 545)), fine), runs(NEW, slow())).regimes.row(0, named=True)
    assert (row["old_before"], row["old_first"], row["new_before"], row["new_first"]) == (369, 370, 352, 384)
    assert row["change"] == "same"


def test_a_regime_that_became_worse():
    found = changes(runs(OLD, slow(4.0)), runs(NEW, slow(8.0)))
    assert (found.series["verdict"].item(), found.regimes["change"].item()) == ("slower", "slower")
    row = found.regimes.row(0, named=True)
    assert row["factor_low"] < 2 < row["factor_high"]


def test_speed_throughout_is_told_apart_from_regimes():
    found = changes(runs(OLD, slow()), runs(NEW, lambda n: 1.3 * slow()(n)))
    row = found.series.row(0, named=True)
    assert (row["verdict"], row["trend"]) == ("slower", "slower")
    assert row["shift_low"] < 1.3 < row["shift_high"]
    assert found.regimes["change"].item() == "same"
    assert changes(runs(OLD), runs(NEW, lambda n: 0.7)).series["verdict"].item() == "faster"


def test_a_hotter_afternoon_is_no_regression():
    """Everything takes 1.25 times as long, the fixed workload too."""
    found = changes(runs(OLD), runs(NEW, lambda n: 1.25, sentinel=0.03 * 1.25))
    row = found.series.row(0, named=True)
    assert (row["verdict"], row["trend"]) == ("can't tell", "unchanged")
    assert not found.budgets["change"].is_in(["slower", "faster"]).any()
    assert 1.2 < row["drift"] < 1.3
    assert "the machine on that day, or the stack" in row["sentence"]
    assert row["next"] == "measure both again, one after the other"


def test_what_the_fixed_workload_does_not_explain_is_a_slow_down():
    found = changes(runs(OLD), runs(NEW, lambda n: 2.0, sentinel=0.03 * 1.25))
    assert found.series["verdict"].item() == "slower"
    assert "while the fixed workload took 1.2" in found.series["sentence"].item()


def test_between_machines_the_fixed_workload_is_not_looked_at():
    found = changes(runs(OLD), runs(OLD, lambda n: 2.0, machine="other", sentinel=0.06))
    assert found.series.select("old_machine", "new_machine", "trend").rows() == [("m", "other", "slower")]


def test_one_slow_process_is_unclear_and_asked_for_again():
    once = changes(runs(OLD), runs(NEW, slow(2.0, (512,))))
    assert once.series["verdict"].item() == "can't tell"
    assert once.budgets.filter(n_gen=512)["change"].item() == "unclear"
    assert once.series["next"].item() == "measure 512 tokens again in another process"
    thrice = changes(runs(OLD), runs(NEW, slow(2.0, (512,)), processes=3))
    assert thrice.budgets.filter(n_gen=512)["change"].item() == "slower"
    assert thrice.series["verdict"].item() in ("new", "slower")


def test_a_disturbed_cell_widens_the_error():
    plain = changes(runs(OLD), runs(NEW)).budgets
    flagged = changes(runs(OLD), runs(NEW, disturbed="sentinel")).budgets
    assert flagged["disturbed"].all()
    width = [(math.log(row["high"] / row["low"])) for frame in (plain, flagged) for row in frame[:1].to_dicts()]
    assert width[1] > 3 * width[0]


def test_a_stopped_request_bounds_the_ratio():
    found = changes(runs(OLD), runs(NEW, slow(8.0), stopped=(512, 544)))
    row = found.budgets.filter(n_gen=512).row(0, named=True)
    assert (row["bound"], row["high"], row["change"]) == ("at least", None, "slower")
    both = changes(runs(OLD, slow(), stopped=(512,)), runs(NEW, slow(), stopped=(512,)))
    row = both.budgets.filter(n_gen=512).row(0, named=True)
    assert (row["bound"], row["low"], row["change"]) == ("unknown", None, "unclear")


FEW = (128, 352, 384, 448, 544, 576, 768)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [
        (slow(), "unchanged"),
        (lambda n: 1.0, "gone"),
        (slow(within=range(416, 577)), "moved"),
        (lambda n: 1.6 * slow()(n), "slower"),
        (slow(within=(*REGIME, 128)), "new"),
    ],
)
def test_a_look_at_few_budgets_decides(factor, verdict):
    """Both sides of each edge, one budget inside, two normal ones, against the whole of the old stack."""
    row = changes(runs(OLD, slow()), runs(NEW, factor, FEW)).series.row(0, named=True)
    assert (row["n_budgets"], row["verdict"]) == (len(FEW), verdict), row["sentence"]


def test_too_little_to_tell_is_said():
    assert "no budget was measured on both" in changes(runs(OLD), runs(NEW, grid=(144, 176))).series["sentence"].item()
    inside = changes(runs(OLD, slow()), runs(NEW, grid=(128, 192, 256, 320, 640, 704, 768))).series.row(0, named=True)
    assert inside["verdict"] == "can't tell"
    assert inside["sentence"] == "the regime from 384 to 544 tokens: nothing was measured inside it"
    assert inside["next"] == "measure the regime from 384 to 544 tokens on both"


def test_every_two_stacks_and_every_two_machines_are_pairs():
    place = {"device": "cpu"}
    series = pl.DataFrame(
        [
            {"series": f"{m}{s}", **DEFAULTS, **place, "machine": m, "stack": s}
            for m, s in (("a", OLD), ("a", NEW), ("b", OLD), ("c", "z_torch-1_transformers-1"))
        ]
    )
    assert pair_places(series) == [
        (("a", OLD), ("a", NEW)),
        (("a", OLD), ("b", OLD)),
        (("a", NEW), ("c", "z_torch-1_transformers-1")),
        (("b", OLD), ("c", "z_torch-1_transformers-1")),
    ]


@pytest.mark.parametrize(("devices", "n"), [(("mps", "cuda"), 1), (("cpu", "cpu"), 1), (("mps", "cpu"), 0)])
def test_between_machines_accelerators_are_compared_and_cpus(devices, n):
    rows = [
        {"series": device + m, **DEFAULTS, "device": device, "machine": m, "stack": OLD}
        for device, m in zip(devices, "ab", strict=True)
    ]
    assert len(pair_series(pl.DataFrame(rows), ("a", OLD), ("b", OLD))) == n


def test_one_place_is_an_empty_table():
    found = changes(runs(OLD))
    assert found.series.is_empty()
    assert found.regimes.is_empty()
    assert found.budgets.is_empty()


def test_holm_is_the_textbooks():
    """The example of Holm's own step-down: sorted p times what is left, never falling."""
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.empty(0)).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_keeps_the_order_and_only_raises(p):
    p = np.array(p)
    adjusted = holm(p)
    assert (adjusted >= p).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()
    assert (adjusted <= np.minimum(p * len(p), 1) + 1e-12).all(), "never worse than Bonferroni"


def test_p_values_are_students():
    ratio, variance, bound = np.array([0.2, -0.2, 0.2, -0.2, 0.2]), np.full(5, 0.01), np.array([0, 0, 1, 1, 2])
    expected = 2 * stats.t.sf(2, 7)
    assert p_value(ratio, variance, 7, bound) == pytest.approx([expected, expected, expected, 1, 1])


def test_a_stack_against_itself_over_many_kinds_of_noise():
    """The quick version of scripts/bench_changes.py; docs/upgrade.md has the long one."""
    total = Count()
    for name, upgrade in upgrades().items():
        if not name.endswith("n40"):
            for k in range(4):
                total.add(compare_drawn(name, upgrade, k))
    assert total.budgets > 1000
    assert total.changed / total.budgets <= 0.01
    assert total.found / total.pairs <= 0.05
    slower = Count()
    for k in range(10):
        slower.add(compare_drawn("slower", replace(upgrades()["noise/s0.05/p0.05/n12"], throughout=1.5), k))
    assert slower.slower == 10, "what is told from chance is still told"


@pytest.mark.parametrize("file", recorded_files(), ids=lambda file: file.stem)
def test_recorded_noise_is_no_change(file):
    verdicts = [verdict for k in range(6) for verdict in resampled(file, k)]
    assert len(verdicts) >= 6
    assert not [word for verdict in verdicts for word in verdict.budgets if word in ("slower", "faster")]


def test_a_regime_without_a_surely_slow_budget_keeps_its_ends():
    """Its brackets then cross: the onset is known to its last budget, the recovery to its first."""
    rng = np.random.default_rng(1)
    drawn = [0.01 * b * (2.0 if b in REGIME else 1.0) * np.exp(rng.normal(0, 0.03, 5)) for b in GRID]
    anatomy = dissect(from_repeats(np.array(GRID, float), drawn))
    (segment,) = anatomy.accepted
    doubtful = replace(segment, brackets=find_brackets(segment.first, segment.last, np.full(len(GRID), 0.5)))
    (extent,) = own_states(replace(anatomy, segments=(doubtful,))).extents
    assert (extent.first, extent.last, extent.before, extent.after) == (384, 544, None, None)


def test_another_load_is_taken_for_no_change():
    """Measured beside a compiler, whose sentinels and requests it slowed down unequally, and then at rest."""
    rng = np.random.default_rng(5)
    loads = {n: 2.0 + 6.0 * rng.random() for n in GRID}
    beside = [
        replace(run, changes=(*run.changes, ("sentinel_before_s", 0.03 * (1 + loads[run.n_gen]))))
        for run in runs(OLD, lambda n: loads[n])
    ]
    for old, new, busier in ((beside, runs(NEW), "older"), (runs(OLD), _moved(beside, NEW), "newer")):
        found = changes(old, new)
        row = found.series.row(0, named=True)
        assert (row["verdict"], row["trend"], row["doubt"]) == ("can't tell", "unchanged", "busier")
        assert row["sentence"].startswith(
            f"the machine was busier while the {busier} was measured: the fixed workload "
        )
        assert "one after the other" in row["next"]
        assert not found.budgets["change"].is_in(["slower", "faster"]).any()
        assert found.budgets["n_gen"].to_list() == list(GRID)


def _moved(made, stack):
    """The same runs under another stack."""
    changed = {"stack": stack}
    return [replace(run, series=f"m.{stack}", changes=tuple({**dict(run.changes), **changed}.items())) for run in made]


def test_a_side_flagged_throughout_cannot_be_told():
    flagged = runs(OLD, lambda n: 4.0, disturbed="other processes used 60% of the cores")
    row = changes(flagged, runs(NEW)).series.row(0, named=True)
    assert (row["verdict"], row["doubt"]) == ("can't tell", "busier")
    both = changes(flagged, _moved(flagged, NEW)).series.row(0, named=True)
    assert both["sentence"] == "the machine was busy while both were measured"


def test_a_busy_machine_is_not_set_against_another_machine():
    flagged = runs(OLD, lambda n: 4.0, machine="a", disturbed="other processes used 60% of the cores")
    row = changes(flagged, runs(OLD, machine="b")).series.row(0, named=True)
    assert (row["verdict"], row["doubt"]) == ("can't tell", "busier")


def test_a_regime_is_neither_gone_nor_new_where_the_machine_was_busy():
    inside = [replace(run, changes=(*run.changes, ("disturbed", "x"))) if run.n_gen in REGIME else run
              for run in runs(OLD, slow())]  # fmt: skip
    gone, new = changes(inside, runs(NEW)), changes(runs(OLD), _moved(inside, NEW))
    for found in (gone, new):
        assert found.series["verdict"].item() == "can't tell"
        assert not found.budgets["change"].is_in(["slower", "faster"]).any()


def test_disturbed_cells_with_a_quiet_one_beside_them_do_not_count():
    quiet = runs(NEW, lambda n: 2.0)
    busy = [replace(run, process=2, changes=(*run.changes, ("sentinel_before_s", 0.3))) for run in quiet]
    assert changes(runs(OLD), [*quiet, *busy]).series["verdict"].item() == "slower"


@pytest.mark.parametrize("busy_first", [True, False])
def test_recorded_on_a_busy_machine_and_at_rest_is_no_change(busy_first):
    """DistilGPT-2 on the same two cores, beside other processes and alone (tests/recorded/README.md)."""
    files = [RECORDED / "busy-cpu.parquet", RECORDED / "idle-cpu.parquet"]
    tables = [read_table(file, REQUESTS) for file in (files if busy_first else files[::-1])]
    named = [
        table.with_columns(stack=pl.lit(stack), series=pl.lit(stack))
        for table, stack in zip(tables, (OLD, NEW), strict=True)
    ]
    found = compare_places(pl.concat(named))
    row = found.series.row(0, named=True)
    assert (row["verdict"], row["doubt"]) == ("can't tell", "busier")
    assert f"while the {'older' if busy_first else 'newer'} was measured: the fixed workload took " in row["sentence"]
    assert not found.budgets["change"].is_in(["slower", "faster"]).any()
