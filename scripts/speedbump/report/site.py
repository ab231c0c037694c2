"""The site: the page, its data and its summary, ready for any static host."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from speedbump.report.charts import Drawing
from speedbump.report.downloads import write_downloads
from speedbump.report.page import build_page
from speedbump.report.privacy import identities, scrub, scrub_frame, scrub_values, without_private
from speedbump.report.published import Published
from speedbump.report.study import TABLES, Study
from speedbump.report.summary import summarise


def write_site(
    study: Study, published: Published, drawing: Drawing, pictures: Mapping[str, str], templates: Path, out: Path
) -> None:
    """Write ``index.html``, ``data/`` and ``summary.json`` into ``out``, replacing what was there.

    Names of user, host and home folder are taken out of everything that is written.
    """
    names = identities()
    clean = anonymise(study, names)
    charts = replace(
        drawing,
        charts=[replace(chart, description=scrub(chart.description, names)) for chart in drawing.charts],
        datasets=scrub_values(drawing.datasets, names),
    )
    page = build_page(clean, published, charts, pictures, templates)
    summary = json.dumps(summarise(clean), indent=1, ensure_ascii=False, allow_nan=False)
    shutil.rmtree(out, ignore_errors=True)
    write_downloads(clean, out / "data")
    (out / "index.html").write_text(page, encoding="utf-8")
    (out / "summary.json").write_text(summary + "\n", encoding="utf-8")


def anonymise(study: Study, names: frozenset[str]) -> Study:
    """The study without anything that names its user, host or folders."""
    tables: dict[str, Any] = {table.name: scrub_frame(getattr(study, table.name), names) for table in TABLES}
    return replace(
        study,
        **tables,
        about=scrub_values(study.about, names),
        environments=[
            {**scrub_values(entry, names), "environment": scrub_values(without_private(entry["environment"]), names)}
            for entry in study.environments
        ],
    )
