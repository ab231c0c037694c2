"""Speedbump: find the decode lengths at which a language model's runtime falls off a cliff."""


include: "rules/common.smk"
include: "rules/stacks.smk"
include: "rules/measure.smk"
include: "rules/refine.smk"
include: "rules/analyse.smk"
include: "rules/report.smk"


localrules:
    all,


rule all:
    """The report of the study, everything measured; of an upgrade's check, its verdicts."""
    default_target: True
    input:
        f"{OUT}/upgrade.json" if CHECK else f"{OUT}/site/index.html",
        lambda wildcards: CATALOGUE.missing_runs(),
        MADE,


for name in PROJECT.grid.cells:

    rule:
        name:
            name
        input:
            lambda wildcards, name=name: CATALOGUE.runs(name),
            MADE,


onstart:
    hold_off_sleep()
    CATALOGUE.start()


onsuccess:
    site_was_asked_for = not set(workflow.dag_settings.targets) - {"all"}
    if site_was_asked_for and "SPEEDBUMP_VERDICT" not in os.environ:
        from speedbump.report.closing import closing_lines  # here, since polars would slow down every start

        for line in closing_lines(Path(OUT), PROJECT.file):
            say(line)


onerror:
    say(f"some jobs failed, as said above; a report of what is measured: {partial_report(PROJECT.file)}")
