"""The sections that hold charts, in the order of the page. Each draws its charts and describes them."""

from typing import Protocol

from speedbump.report.charts import Drawing, Rows
from speedbump.report.published import Published
from speedbump.report.section import Section
from speedbump.report.sections import (
    cache,
    claims,
    devices,
    latency,
    lifetime,
    mechanism,
    memory,
    mitigations,
    phases,
    prediction,
    profiles,
    prompt,
    stacks,
    steps,
    tokens,
    workload,
)
from speedbump.report.study import Study


class ChartSection(Protocol):
    """What a module of this package offers."""

    def draw(self, study: Study, datasets: dict[str, Rows], published: Published) -> Drawing:
        """Its charts over the shared data sets, and data sets of its own."""

    def describe(self, study: Study, datasets: dict[str, Rows], published: Published) -> Section:
        """Its finding, figures and table."""


SECTIONS: tuple[ChartSection, ...] = (
    workload,
    latency,
    tokens,
    steps,
    phases,
    cache,
    memory,
    prompt,
    lifetime,
    mechanism,
    mitigations,
    prediction,
    profiles,
    stacks,
    devices,
    claims,
)
