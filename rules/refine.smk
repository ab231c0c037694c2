# In: the runs of an experiment so far.
# Out: plans/<machine>/<stack>/<experiment>/<round>.json, the budgets to measure next; an empty plan ends refinement.

from speedbump.plan.refinement_plan import refine_settings


wildcard_constraints:
    experiment=r"[a-z][a-z0-9_]*",
    round=r"\d+",


if not PARTIAL:

    checkpoint plan_refinement:
        """Choose further budgets where something stands out, for all curves of the experiment at once."""
        input:
            script=CODE / "scripts/plan_refinement.py",
            library=library("analyse"),
            runs=lambda wildcards: CATALOGUE.runs_after(wildcards.experiment, wildcards.stack, int(wildcards.round) - 1),
        output:
            plan=f"{PLANS}/{{stack}}/{{experiment}}/{{round}}.json",
        log:
            f"{WHOLE}/logs/plan_refinement.{{stack}}.{{experiment}}.{{round}}.log",
        params:
            settings=lambda wildcards: refine_settings(STUDY, wildcards.experiment),
            earlier=lambda wildcards: CATALOGUE.earlier_plans(
                wildcards.experiment, wildcards.stack, int(wildcards.round)
            ),
            checked=lambda wildcards: CATALOGUE.start_of_plan(
                wildcards.experiment, wildcards.stack, int(wildcards.round)
            ),
            runs=lambda wildcards, input: CATALOGUE.list_runs_to_plan(
                wildcards.experiment, wildcards.stack, int(wildcards.round), input.runs
            ),
        shell:
            f"{PYTHON}"
            " {input.script:q} --runs {params.runs:q} --settings {params.settings:q}"
            " --round {wildcards.round} --earlier {params.earlier:q} --checked {params.checked:q}"
            " --out {output.plan:q} 2> {log:q}"
            f" {SHOW_LOG}"
