# In: the runs of every experiment.
# Out: the study's tables: requests, cells, faults; budgets, series, regimes.

TABLES = ("requests", "cells", "faults", "budgets", "series", "regimes")


rule collect_requests:
    """Verify every run and join them; what cannot be read is named, the rest goes on."""
    input:
        script="scripts/collect_requests.py",
        library=library("analyse"),
        devices=ancient(DEVICES),
        runs=lambda wildcards: to_read(dict.fromkeys(file for name in SCAN for file in files_of(name))),
    output:
        requests=f"{OUT}/requests.parquet",
        cells=f"{OUT}/cells.parquet",
        faults=f"{OUT}/faults.parquet",
        environment=f"{OUT}/environment.json",
        study=f"{OUT}/study.json",
    log:
        f"{OUT}/logs/collect_requests.log",
    params:
        study=lambda wildcards: describe_study(STUDY, MODELS, partial=PARTIAL),
        folder=lambda wildcards, output: os.path.dirname(output.study),
        runs=lambda wildcards: write_list(
            "collect_requests",
            {
                "experiments": {name: files_of(name) for name in SCAN},
                "other_stacks": runs_of_other_stacks(GRID.cells, Path(RUNS), Path(PLANS)),
            },
        ),
    shell:
        f"{PYTHON}"
        " {input.script:q} --runs {params.runs:q} --study {params.study:q}"
        " --devices {input.devices:q} --out {params.folder:q} 2> {log:q}"


rule segment_regimes:
    """Find slow regimes along the output length of every series."""
    input:
        script="scripts/segment_regimes.py",
        library=library("analyse"),
        requests=f"{OUT}/requests.parquet",
    output:
        series=f"{OUT}/series.parquet",
        regimes=f"{OUT}/regimes.parquet",
        budgets=f"{OUT}/budgets.parquet",
    log:
        f"{OUT}/logs/segment_regimes.log",
    shell:
        f"{PYTHON}"
        " {input.script:q} {input.requests:q} --series {output.series:q}"
        " --regimes {output.regimes:q} --budgets {output.budgets:q} 2> {log:q}"
