# In: the study's tables, the paper's published figures, templates.
# Out: charts, and the static site with its data.

WORKLOAD = [f"{OUT}/workload.csv"] if STUDY.workload else []

if WORKLOAD:

    rule copy_workload:
        """Keep the lengths that the application uses beside the tables they are held against."""
        input:
            workload=lambda wildcards: STUDY.workload,
        output:
            kept=f"{OUT}/workload.csv",
        log:
            f"{OUT}/logs/copy_workload.log",
        shell:
            "cp {input.workload:q} {output.kept:q} 2> {log:q}" f" {SHOW_LOG}"


rule draw_charts:
    """Draw every chart, as a specification and as a static SVG."""
    input:
        script=CODE / "scripts/draw_charts.py",
        library=library("analyse", "report"),
        tables=expand(f"{OUT}/{{table}}.parquet", table=TABLES),
        study=f"{OUT}/study.json",
        workload=WORKLOAD,
        reference=REFERENCE,
    output:
        charts=report(
            directory(f"{OUT}/charts"),
            patterns=["{chart}.svg"],
            caption="../reports/captions/charts.rst",
            category="Charts",
        ),
    log:
        f"{OUT}/logs/draw_charts.log",
    params:
        folder=lambda wildcards, input: os.path.dirname(input.study),
    shell:
        f"{PYTHON}"
        " {input.script:q} {params.folder:q}"
        f" {REFERENCE_OPTION}"
        " --out {output.charts:q} 2> {log:q}"
        f" {SHOW_LOG}"


rule build_site:
    """Build the static site: index.html, self-contained, with the data beside it."""
    input:
        script=CODE / "scripts/build_site.py",
        library=library("analyse", "report"),
        tables=expand(f"{OUT}/{{table}}.parquet", table=TABLES),
        study=f"{OUT}/study.json",
        workload=WORKLOAD,
        environment=f"{OUT}/environment.json",
        charts=f"{OUT}/charts",
        reference=REFERENCE,
        templates=[str(file) for file in visible(CODE / "reports", "**/*") if file.is_file()],
    output:
        page=report(f"{OUT}/site/index.html", caption="../reports/captions/page.rst", category="Report"),
        summary=report(f"{OUT}/site/summary.json", caption="../reports/captions/summary.rst", category="Report"),
    log:
        f"{OUT}/logs/build_site.log",
    params:
        folder=lambda wildcards, input: os.path.dirname(input.study),
        site=lambda wildcards, output: os.path.dirname(output.page),
    shell:
        f"{PYTHON}"
        " {input.script:q} {params.folder:q} --charts {input.charts:q}"
        f" {REFERENCE_OPTION} {words('--templates', str(CODE / 'reports'))}"
        " --out {params.site:q} 2> {log:q}"
        f" {SHOW_LOG}"
