# In: the parameters of a cell.
# Out: results/runs/<machine>/<stack>/<cell>.parquet, its requests; shared by all studies. Only files of this machine
# are made, and of the stacks that are measured now: those of others are kept, and cannot be made here.


wildcard_constraints:
    cell=r"[^/]+\.[0-9a-f]{12}",
    stack=CATALOGUE.stack_pattern,


if not PARTIAL:

    rule measure_cell:
        """Measure one cell in a process of its own. What goes wrong in the cell becomes rows of its file."""
        input:
            script=ancient(CODE / "scripts/measure_cell.py"),
            environment=ancient(lambda wildcards: CATALOGUE.environment(wildcards.stack)),
        output:
            run=f"{RUNS}/{{stack}}/{{cell}}.parquet",
        log:
            f"results/logs/measure_cell/{MACHINE}/{{stack}}/{{cell}}.log",
        priority: lambda wildcards: CATALOGUE.priority(wildcards.cell)
        resources:
            accelerator=lambda wildcards: CATALOGUE.devices_taken(wildcards.cell),
            gpu=lambda wildcards: CATALOGUE.gpus_taken(wildcards.cell),  # what executors ask a cluster for
        params:
            cell=lambda wildcards: CATALOGUE.parameters(wildcards.cell),
        shell:
            f"{MEASURING_PYTHON}"
            " {input.script:q} --cell {params.cell:q} --stack {wildcards.stack:q}"
            " --out {output.run:q} --log {log:q}"
            f"{' --environment {input.environment:q}' if LISTED else ''}"
            f" {MEASURING_OPTIONS}"
