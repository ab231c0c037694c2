# In: a stack that the study lists.
# Out: results/environments/<name>.json, what came of making it, and <name>/, the environment itself.

from speedbump.grid.environments import ENVIRONMENTS


wildcard_constraints:
    environment=r"torch-[^/]+_[0-9a-f]{8}",


if LISTED and not PARTIAL:

    checkpoint make_stack:
        """Make the environment of a stack. Which stack it is, with torch's build, is known only then. One that cannot be
        made is recorded, and the rest goes on.
        """
        input:
            script=ancient(CODE / "scripts/make_stack.py"),
        output:
            record=f"{ENVIRONMENTS}/{{environment}}.json",
            folder=directory(f"{ENVIRONMENTS}/{{environment}}"),
        log:
            "results/logs/make_stack/{environment}.log",
        priority: 1 << 32
        resources:
            accelerator=1_000_000,
            gpu=int(CATALOGUE.any_cell_on("cuda")),  # to be probed
        params:
            definition=lambda wildcards: CATALOGUE.definition(wildcards.environment),
        shell:
            f"{PYTHON}"
            " {input.script:q} --definition {params.definition:q} --folder {output.folder:q} --out {output.record:q}"
            " --log {log:q}"
