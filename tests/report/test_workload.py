"""A workload against curves whose values are known."""

import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from simulated import Line, Slow, simulate

from speedbump.analyse.workload import Answer, BadRow, WorkloadError, estimate, kinds, read_workload, weighted_quantile
from speedbump.report.sections.workload import judge, workload_finding
from speedbump.report.study import read_study
from speedbump.report.summary import summarise

ROWS = {128: 1.0, 256: 2.0, 384: 3.0, 512: 40.0, 640: 5.0, 768: 6.0}


def budgets(
    rows: dict[int, float] = ROWS, slow: tuple[int, ...] = (512,), bounds: tuple[int, ...] = ()
) -> pl.DataFrame:
    """A budgets table of the columns that count: ten per cent of interval to either side."""
    return pl.DataFrame(
        [
            {
                "n_gen": n,
                "latency_s": latency,
                "low_s": None if n in bounds else latency / 1.1,
                "high_s": None if n in bounds else latency * 1.1,
                "lower_bound": n in bounds,
                "state": "slow" if n in slow else "normal",
            }
            for n, latency in rows.items()
        ],
        schema_overrides={"low_s": pl.Float64, "high_s": pl.Float64},
    )


def write(folder: Path, text: str) -> Path:
    path = folder / "workload.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_one_row_a_request_or_counts(tmp_path: Path) -> None:
    plain = read_workload(write(tmp_path, "n_prompt,n_gen\n65,128\n65,128\n65,512\n"))
    counted = read_workload(write(tmp_path, "n_gen, n_prompt,model,count\n128,65,x,2\n512,65,y,1\n"))
    assert plain.requests.equals(counted.requests)
    assert plain.n_requests == 3
    assert plain.bad == ()


def test_bad_rows_are_named_and_left_out(tmp_path: Path) -> None:
    text = "\ufeffn_prompt,n_gen\n65,128\n65,\n65,many\n0,128\n65,12.5\n65,256,7\n"
    workload = read_workload(write(tmp_path, text))
    assert workload.n_requests == 2
    assert workload.n_bad == 4
    assert workload.bad == (
        BadRow(3, "n_gen is empty"),
        BadRow(4, "n_gen is not a whole number: many"),
        BadRow(5, "n_prompt is less than 1: 0"),
        BadRow(6, "n_gen is not a whole number: 12.5"),
    )


@pytest.mark.parametrize("text", ["n_prompt,tokens\n1,2\n", ""])
def test_what_is_no_workload_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(WorkloadError, match=r"workload\.csv"):
        read_workload(write(tmp_path, text))


def test_kinds_by_the_lengths_around() -> None:
    lengths = np.array([64, 128, 200, 384, 400, 512, 600, 640, 700, 800])
    words = ("outside", "normal", "normal", "normal", "unclear", "slow", "unclear", "normal", "normal", "outside")
    assert [("normal", "slow", "unclear", "outside")[kind] for kind in kinds(lengths, budgets())] == list(words)


def test_shares_and_quantiles_at_measured_lengths(tmp_path: Path) -> None:
    rows = ["65,128"] * 50 + ["65,256"] * 40 + ["65,512"] * 10
    found = estimate(read_workload(write(tmp_path, "n_prompt,n_gen\n" + "\n".join(rows))), [Answer(65, budgets())])
    assert (found.n_requests, found.slow, found.edge, found.outside, found.far) == (100, 0.1, 0, 0, 0)
    assert found.p50 is not None
    assert found.p99 is not None
    assert found.total is not None
    assert found.p50.centre == pytest.approx(1.0)
    assert found.p99.centre == pytest.approx(40.0)
    assert found.p99.high == pytest.approx(44.0)
    assert found.total.centre == pytest.approx(50 + 80 + 400)
    assert found.slow_time == pytest.approx(400 / 530)


def test_between_two_normal_lengths_and_across_an_edge(tmp_path: Path) -> None:
    inside = estimate(read_workload(write(tmp_path, "n_prompt,n_gen\n65,192\n")), [Answer(65, budgets())])
    assert inside.p50 is not None
    assert inside.p50.centre == pytest.approx(1.5)
    across = estimate(read_workload(write(tmp_path, "n_prompt,n_gen\n65,448\n")), [Answer(65, budgets())])
    assert across.edge == 1
    assert across.p50 is not None
    assert across.p50.low == pytest.approx(3 / 1.1 * 448 / 384)
    assert across.p50.high == pytest.approx(40 * 1.1 * 448 / 512)


def test_lower_bound_leaves_the_upper_end_open(tmp_path: Path) -> None:
    workload = read_workload(write(tmp_path, "n_prompt,n_gen\n65,128\n65,512\n"))
    found = estimate(workload, [Answer(65, budgets(bounds=(512,)))])
    assert found.total is not None
    assert found.total.high is None
    assert found.total.low == pytest.approx(1 / 1.1 + 40)


def test_outside_and_far_prompts_are_counted_and_left_out_of_times(tmp_path: Path) -> None:
    workload = read_workload(write(tmp_path, "n_prompt,n_gen\n65,128\n65,4000\n700,128\n"))
    found = estimate(workload, [Answer(65, budgets())])
    assert found.outside == pytest.approx(1 / 3)
    assert found.far == pytest.approx(1 / 3)
    assert found.total is not None
    assert found.total.centre == pytest.approx(2.0)
    nothing = estimate(read_workload(write(tmp_path, "n_prompt,n_gen\n65,4000\n")), [Answer(65, budgets())])
    assert nothing.p50 is None
    assert nothing.slow_time is None


def test_the_nearest_prompt_answers(tmp_path: Path) -> None:
    slower = budgets({n: 10 * latency for n, latency in ROWS.items()})
    workload = read_workload(write(tmp_path, "n_prompt,n_gen\n60,128\n900,128\n"))
    found = estimate(workload, [Answer(65, budgets()), Answer(1000, slower)])
    assert found.total is not None
    assert found.total.centre == pytest.approx(11.0)


def test_weighted_quantile_is_numpy_s_of_the_repeated_values() -> None:
    values, count = np.array([5.0, 1.0, 3.0]), np.array([1, 2, 7])
    repeated = np.repeat(values, count)
    for wanted in (0.01, 0.2, 0.5, 0.9, 0.95, 1.0):
        assert weighted_quantile(values, count, wanted) == np.quantile(repeated, wanted, method="inverted_cdf")


def test_a_million_rows_cost_ten_times_what_a_tenth_of_them_do(tmp_path: Path) -> None:
    def cost(rows: int) -> float:
        rng = np.random.default_rng(1)
        lengths = pl.DataFrame({"n_prompt": rng.integers(1, 2000, rows), "n_gen": rng.integers(1, 1500, rows)})
        lengths.write_csv(tmp_path / "workload.csv")
        start = time.process_time()
        found = estimate(read_workload(tmp_path / "workload.csv"), [Answer(65, budgets())])
        assert found.n_requests == rows
        return time.process_time() - start

    few_s, many_s = cost(100_000), cost(1_000_000)
    assert many_s / few_s < 25


def test_report_judges_every_stack_and_shows_a_replay(tmp_path: Path) -> None:
    fixed = "macos-14.8_torch-2.14.0_transformers-4.57.6"
    replay = Line(axes={"lifetime": "persistent", "order": "replay"})
    folder = simulate(tmp_path, [Line(slow=(Slow(512, 512, 10.0),)), Line(stack=fixed), replay], workload=True)
    write(folder, "n_prompt,n_gen,count\n65,128,900\n65,512,100\n")
    slow, smooth = judge(read_study(folder))
    assert (slow.estimate.slow, smooth.estimate.slow) == (0.1, 0)
    assert workload_finding(slow).startswith("10% of this workload falls into a slow regime of GPT-2 Medium on MPS")
    assert workload_finding(smooth).startswith("No request of this workload falls into a slow regime found")
    assert slow.replay is not None
    assert slow.replay["requests"] == 30
    assert smooth.replay is None
    assert [one["slow"] for one in summarise(read_study(folder))["workload"]] == [0.1, 0]
