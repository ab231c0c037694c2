"""Runs measured beside others: what the environment section says of them."""

import polars as pl

from speedbump.report.company import company
from speedbump.tables import CELLS


def cells(*rows):
    columns = ("slot", "neighbours", "sentinel_s", "n_gen", "e2e_median_s")
    shared = {**dict.fromkeys(CELLS.schema), "series": "s", "outcome": "ok"}
    table = [{**shared, "cell": f"c{i}", **dict(zip(columns, row, strict=True))} for i, row in enumerate(rows)]
    return pl.DataFrame(table, schema=CELLS.schema)


def test_both_effects_are_said_with_what_they_rest_on():
    alone = [("cuda-a", 0.0, 0.030 + 0.0001 * (n % 2), n, 1.0) for n in range(8)]
    beside = [("cuda-a", 1.0, 0.033 + 0.0001 * (n % 2), n, 1.0 + 0.001 * (n % 2)) for n in range(8)]
    at_once, effect = company(cells(*alone, *beside))
    assert at_once == ("Runs at once", "up to 2 on 1 device; 8 runs beside others, 8 alone")
    assert effect[0] == "Effect of neighbours"
    assert effect[1] == (
        "they slow one another: measure one at a time; sentinel 1.10× as long as alone (1.10–1.10; 8 beside, 8 alone);"
        " same output length 1.00× as long as alone (1.00–1.00; 8 beside, 8 alone)"
    )


def test_the_hosts_sentinel_is_said_where_it_ran():
    rows = [("cuda-a", beside, 0.03, n, None) for n in range(8) for beside in (0.0, 1.0)]
    slowed = pl.when(pl.col("neighbours") > 0).then(0.03).otherwise(0.02) + 1e-5 * pl.col("n_gen")
    assert (
        "; host’s sentinel 1.50× as long as alone (1."
        in company(cells(*rows).with_columns(host_sentinel_s=slowed))[1][1]
    )


def test_without_runs_alone_the_effect_is_unknown():
    _, effect = company(cells(("cuda-a", 1.0, 0.03, 8, 1.0), ("cuda-b", 1.0, 0.03, 16, 1.0)))
    assert effect == ("Effect of neighbours", "unknown: no device has runs of both kinds")


def test_equal_times_beside_and_alone_are_no_disturbance_and_few_noisy_ones_do_not_tell():
    equal = [("cuda-a", beside, 0.03 + 0.0001 * n, n, 1.0) for n in range(8) for beside in (0.0, 1.0)]
    assert company(cells(*equal))[1][1].startswith("none above 5%; sentinel 1.00×")
    noisy = [("cuda-a", beside, 0.03 + 0.005 * n, n, None) for n in range(3) for beside in (0.0, 1.0)]
    assert company(cells(*noisy))[1][1].startswith("cannot tell; sentinel 1.00×")


def test_the_devices_sentinel_alone_says_nothing_of_the_host():
    rows = cells(*[("cuda-a", beside, 0.03 + 0.0001 * n, n, None) for n in range(8) for beside in (0.0, 1.0)])
    assert company(rows)[1][1].startswith("none above 5% on the device, unknown on the host; sentinel 1.00×")
    known = rows.with_columns(host_sentinel_s=0.06 + 1e-5 * pl.col("n_gen"))
    assert company(known)[1][1].startswith("none above 5%; sentinel 1.00×")


def test_a_machine_with_one_run_at_a_time_says_nothing():
    assert company(cells(("cuda-a", 0.0, 0.03, 8, 1.0))) == []
