# In: a stack that the study lists.
# Out: results/environments/<name>.json, what came of making it, and <name>/, the environment itself.

from speedbump.grid.environments import ENVIRONMENTS, usable


def definition_of(environment):
    """Canonical JSON of the environment's definition."""
    definition = next((definition for definition in LISTED if definition.name == environment), None)
    if definition is None:
        raise WorkflowError(f"{environment}: {STUDY_FILE} lists no such stack")
    return definition.as_json()


def environment_of(stack):
    """Record of the environment that measures a stack; none for this Python's own."""
    if not LISTED:
        return []
    record = next((definition.record for definition, made in usable(LISTED) if made.stack == stack), None)
    if record is None:
        raise WorkflowError(f"{stack}: {STUDY_FILE} lists no stack that turned out to be this one")
    return str(record)


wildcard_constraints:
    environment=r"torch-[^/]+_[0-9a-f]{8}",


if LISTED and not PARTIAL:

    checkpoint make_stack:
        """Make the environment of a stack. Which stack it is, with torch's build, is known only then. One that cannot be
        made is recorded, and the rest goes on.
        """
        input:
            script=ancient("scripts/make_stack.py"),
        output:
            record=f"{ENVIRONMENTS}/{{environment}}.json",
            folder=directory(f"{ENVIRONMENTS}/{{environment}}"),
        log:
            "results/logs/make_stack/{environment}.log",
        priority: 1 << 32
        resources:
            accelerator=1_000_000,
            gpu=int(any(cell["device"] == "cuda" for cells in GRID.cells.values() for cell in cells)),  # to be probed
        params:
            definition=lambda wildcards: definition_of(wildcards.environment),
        shell:
            f"{PYTHON}"
            " {input.script:q} --definition {params.definition:q} --folder {output.folder:q} --out {output.record:q}"
            " --log {log:q}"
