# In: the runs of every experiment.
# Out: the study's tables: requests, cells, faults, memory samples, profiles; budgets, series, regimes; comparisons;
# changes; claims; hypotheses, growth, mitigations, predictions.

from speedbump.grid.refined import fingerprint
from speedbump.grid.work import describe_study

COLLECTED = ("requests", "cells", "faults", "memory_samples", "profiles")
FOUND = ("series", "regimes", "budgets")
CHANGES = ("series_changes", "regime_changes", "budget_changes")
JUDGED = ("hypotheses", "growth", "mitigations", "predictions")
TABLES = (*COLLECTED, *FOUND, "comparisons", *CHANGES, "claims", *JUDGED)
BUNDLES = [] if CHECK else STUDY.bundles
REFERENCE = sorted(map(str, Path("config/reference").iterdir()))


rule collect_requests:
    """Verify every run and join them; what cannot be read is named, the rest goes on."""
    input:
        script="scripts/collect_requests.py",
        library=library("analyse"),
        devices=ancient(DEVICES),
        runs=lambda wildcards: to_read(dict.fromkeys(file for name in GRID.cells for file in files_of(name))),
        environments=RECORDS,
        bundles=list(filter(os.path.isfile, BUNDLES)),
    output:
        tables=expand(f"{OUT}/{{table}}.parquet", table=COLLECTED),
        environment=f"{OUT}/environment.json",
        study=f"{OUT}/study.json",
    log:
        f"{OUT}/logs/collect_requests.log",
    params:
        study=lambda wildcards: describe_study(STUDY, MODELS, MACHINE, measured_stacks(), PARTIAL, CENTRE, STUDY_FILE),
        folder=lambda wildcards, output: os.path.dirname(output.study),
        runs=lambda wildcards: write_list(
            "collect_requests",
            {"experiments": {name: files_of(name) for name in GRID.cells}, "other_stacks": other_stacks()},
        ),
        # No input, since measure_cell would be asked for what only another stack can make.
        other_stacks=lambda wildcards: fingerprint(other_stacks()),
        bundles=BUNDLES,
        bundle_files=lambda wildcards: fingerprint(filter(os.path.isfile, BUNDLES)),  # a moved one can be older
        origin=f"results/machines/{MACHINE}/origin.txt",
    shell:
        f"{PYTHON}"
        " {input.script:q} --runs {params.runs:q} --study {params.study:q} --devices {input.devices:q}"
        " --environments {input.environments:q} --bundles {params.bundles:q} --origin {params.origin:q}"
        " --out {params.folder:q} 2> {log:q}"
        f" {SHOW_LOG}"


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
        f" {SHOW_LOG}"


rule compare_series:
    """Compare every two series that differ in one axis, budget by budget."""
    input:
        script="scripts/compare_series.py",
        library=library("analyse"),
        tables=expand(f"{OUT}/{{table}}.parquet", table=("requests", "series", "budgets")),
    output:
        comparisons=f"{OUT}/comparisons.parquet",
    log:
        f"{OUT}/logs/compare_series.log",
    params:
        folder=lambda wildcards, output: os.path.dirname(output.comparisons),
    shell:
        f"{PYTHON}" " {input.script:q} {params.folder:q} --out {output.comparisons:q} 2> {log:q}" f" {SHOW_LOG}"


rule compare_stacks:
    """Compare every two stacks of a machine, and every two machines: what changed, and what cannot be told."""
    input:
        script="scripts/compare_stacks.py",
        library=library("analyse"),
        requests=f"{OUT}/requests.parquet",
    output:
        series=f"{OUT}/series_changes.parquet",
        regimes=f"{OUT}/regime_changes.parquet",
        budgets=f"{OUT}/budget_changes.parquet",
    log:
        f"{OUT}/logs/compare_stacks.log",
    shell:
        f"{PYTHON}"
        " {input.script:q} {input.requests:q} --series {output.series:q}"
        " --regimes {output.regimes:q} --budgets {output.budgets:q} 2> {log:q}"
        f" {SHOW_LOG}"


rule check_claims:
    """Check the paper's claims on what was measured, and on the paper's own figures."""
    input:
        script="scripts/check_claims.py",
        library=library("analyse"),
        tables=expand(f"{OUT}/{{table}}.parquet", table=(*COLLECTED, *FOUND)),
        reference=REFERENCE,
    output:
        claims=f"{OUT}/claims.parquet",
    log:
        f"{OUT}/logs/check_claims.log",
    params:
        folder=lambda wildcards, output: os.path.dirname(output.claims),
    shell:
        f"{PYTHON}"
        " {input.script:q} {params.folder:q} --reference config/reference --out {output.claims:q} 2> {log:q}"
        f" {SHOW_LOG}"


rule judge_hypotheses:
    """Judge why curves are slow, where the study has arms that tell; predict onsets from the allocator's pool."""
    input:
        script="scripts/judge_hypotheses.py",
        library=library("analyse"),
        tables=expand(f"{OUT}/{{table}}.parquet", table=(*COLLECTED, *FOUND)),
        study=f"{OUT}/study.json",
        models=sorted(str(file) for folder in {"config/models", STUDY.models} for file in Path(folder).glob("*.yaml")),
        reference=REFERENCE,
    output:
        tables=expand(f"{OUT}/{{table}}.parquet", table=JUDGED),
    log:
        f"{OUT}/logs/judge_hypotheses.log",
    params:
        folder=lambda wildcards, output: os.path.dirname(output.tables[0]),
        models=sorted({"config/models", STUDY.models}),
    shell:
        f"{PYTHON}"
        " {input.script:q} {params.folder:q} --models {params.models:q} --reference config/reference"
        " --out {params.folder:q} 2> {log:q}"
        f" {SHOW_LOG}"


if CHECK:

    rule check_upgrade:
        """Say of each curve whether the stack in use changed it against an earlier one."""
        input:
            script="scripts/check_upgrade.py",
            library=library("analyse", "report"),
            tables=expand(f"{OUT}/{{table}}.parquet", table=(*COLLECTED, *FOUND, *CHANGES)),
            study=f"{OUT}/study.json",
        output:
            upgrade=f"{OUT}/upgrade.json",
        log:
            f"{OUT}/logs/check_upgrade.log",
        params:
            folder=lambda wildcards, input: os.path.dirname(input.study),
            old=CHECK.reference,
            new=STACK,
            left_out=CHECK.notices,
        shell:
            f"{PYTHON}"
            " {input.script:q} {params.folder:q} --old {params.old:q} --new {params.new:q}"
            " --left-out {params.left_out:q} --out {output.upgrade:q} 2> {log:q}"
            f" {SHOW_LOG}"
