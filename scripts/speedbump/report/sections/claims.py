"""The paper's claims, and what is missing to check them."""

from speedbump.report.charts import Drawing, Rows
from speedbump.report.published import Published
from speedbump.report.section import Section
from speedbump.report.study import Study
from speedbump.report.words import plural


def draw(study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
    """Nothing: claims are a table."""
    return Drawing([], {})


def describe(study: Study, datasets: dict[str, Rows], published: Published) -> Section:
    """What would fill it."""
    count = plural(published.claims.height, "published claim")
    return Section(
        "claims",
        "Claims",
        "The paper’s claims",
        empty=f"Filled by the paper’s grid, which checks {count}: snakemake --cores 1 --configfile config/paper.yaml.",
    )
