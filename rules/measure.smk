# In: the parameters of a cell.
# Out: results/runs/<machine>/<stack>/<cell>.parquet, its requests; shared by all studies. Only this machine's
# and stack's files are made: those of others are kept, and cannot be made here.


wildcard_constraints:
    cell=r"[^/]+\.[0-9a-f]{12}",


if not PARTIAL:

    rule measure_cell:
        """Measure one cell in a process of its own. What goes wrong in the cell becomes rows of its file."""
        input:
            script=ancient("scripts/measure_cell.py"),
        output:
            run=f"{RUNS}/{{cell}}.parquet",
        log:
            f"results/logs/measure_cell/{MACHINE}/{STACK}/{{cell}}.log",
        priority: lambda wildcards: turn_of(wildcards.cell)
        resources:
            accelerator=lambda wildcards: devices_taken(wildcards.cell),
            gpu=lambda wildcards: int(device_of(wildcards.cell) == "cuda"),  # what executors ask a cluster for
        params:
            cell=lambda wildcards: parameters(wildcards.cell),
        shell:
            f"{MEASURING_PYTHON}"
            " {input.script:q} --cell {params.cell:q} --out {output.run:q} --log {log:q}"
            f" {MEASURING_OPTIONS}"
