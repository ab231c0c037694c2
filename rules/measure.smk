# In: the parameters of a cell.
# Out: results/runs/<machine>/<stack>/<cell>.parquet, its requests; shared by all studies.


wildcard_constraints:
    cell=r"[^/]+\.[0-9a-f]{12}",
    machine=r"[^/]+",
    stack=r"[^/]+",


if not PARTIAL:

    rule measure_cell:
        """Measure one cell in a process of its own. What goes wrong in the cell becomes rows of its file."""
        input:
            script=ancient("scripts/measure_cell.py"),
        output:
            run="results/runs/{machine}/{stack}/{cell}.parquet",
        log:
            "results/logs/measure_cell/{machine}/{stack}/{cell}.log",
        priority: lambda wildcards: measuring_order(wildcards.cell, STUDY.protocol.seed)
        resources:
            accelerator=1,
        params:
            cell=lambda wildcards: CELLS[wildcards.cell],
        shell:
            f"{MEASURING_PYTHON}"
            " {input.script:q} --cell {params.cell:q}"
            " --machine {wildcards.machine:q} --stack {wildcards.stack:q}"
            " --out {output.run:q} --log {log:q}"
            f" {MEASURING_OPTIONS}"
