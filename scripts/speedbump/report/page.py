"""The page: one self-contained file that requests nothing."""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import speedbump
from speedbump.analyse.repeats import patient_line, repeats_of
from speedbump.report.changes import changes_between_stacks, upgrade_sentence
from speedbump.report.charts import VEGA_LITE, Drawing, compact_json, live_charts
from speedbump.report.coverage import coverage
from speedbump.report.curves import stack_titles
from speedbump.report.downloads import downloads
from speedbump.report.environment import environment_tables, facts, protocol_words
from speedbump.report.overview import overview, whisker_ticks
from speedbump.report.published import CITATION, Published
from speedbump.report.sections import SECTIONS
from speedbump.report.study import Study
from speedbump.report.verdict import condition, headline, spans_words, verdict_sentence
from speedbump.report.words import duration, plural, sentence


@dataclass(frozen=True)
class Filter:
    """A choice above the verdict. values: (value, title)."""

    name: str
    title: str
    values: list[tuple[str, str]]


def build_page(
    study: Study, published: Published, drawing: Drawing, pictures: Mapping[str, str], templates: Path
) -> str:
    """The whole page as HTML. pictures: every chart's static SVG by name."""
    style = (templates / "report.css").read_text(encoding="utf-8").strip()
    fonts = "".join(
        _font_face(templates / "fonts", name, weight) for name, weight in (("Regular", 400), ("SemiBold", 600))
    )
    script = (templates / "report.js").read_text(encoding="utf-8").strip()
    bundle = vega_bundle()
    css = fonts + style
    progress = study.progress if study.partial else None
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "plural": plural,
        "spans": spans_words,
        "duration": duration,
        "whole_words": whole_words,
        "sentence": sentence,
    }
    sections = [section.describe(study, drawing.datasets, published) for section in SECTIONS]
    descriptions = {chart.name: chart.description for chart in drawing.charts}
    return environment.get_template("report.html.j2").render(
        version=speedbump.__version__,
        policy=policy(bundle, script, css),
        css=Markup(css),
        study=study,
        citation=CITATION,
        verdict=verdict_sentence(study.curves, progress),
        headline=headline(study.curves, progress),
        condition=condition(study.curves),
        again=measure_again(study),
        upgrade=sentence(upgrade_sentence(changes_between_stacks(study))),
        rows=overview(study.curves),
        ticks=whisker_ticks(study.curves),
        filters=filters(study),
        facts=facts(study),
        sections=sections,
        coverage=coverage(study),
        environments=environment_tables(study),
        protocol=protocol_words(study),
        downloads=downloads(study),
        pictures={name: Markup(svg) for name, svg in pictures.items()},
        descriptions=descriptions,
        charts=embed_json(live_charts(drawing)),
        bundle=Markup(bundle),
        script=Markup(script),
    )


def measure_again(study: Study) -> str:
    """The line that measures the disturbed cells again, where the machine was busy; else empty."""
    file = study.about.get("file")
    if study.partial or file is None or not any(curve.busy for curve in study.curves):
        return ""
    files = repeats_of(study.cells, study.faults, study.about)
    return patient_line(files, file, Path("results", "studies", study.name)) if files else ""


def filters(study: Study) -> list[Filter]:
    """The choices by which curves can be filtered: those with more than one value."""
    stacks = stack_titles({curve.row["stack"] for curve in study.curves})
    choices = [
        Filter("model", "Model", sorted({(curve.model, curve.model) for curve in study.curves})),
        Filter("device", "Device", sorted({(curve.device, curve.device) for curve in study.curves})),
        Filter("machine", "Machine", sorted({(c.row["machine"], c.row["machine"]) for c in study.curves})),
        Filter("stack", "Stack", sorted(stacks.items())),
    ]
    return [choice for choice in choices if len(choice.values) > 1]


def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that leaves only ``vegaEmbed`` behind."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;", vl_version=VEGA_LITE)
    return "(()=>{" + re.sub(r"</(?=script)", r"<\\/", bundle, flags=re.IGNORECASE) + "})();"


def embed_json(value: Any) -> Markup:
    """JSON that no text in it can end or leave: ``<`` and ``&`` are escaped as JSON escapes them."""
    text = compact_json(value).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    assert json.loads(text) == json.loads(compact_json(value))
    return Markup(text)


def whole_words(text: str) -> Markup:
    """The text with its hyphenated words kept in one line: ``GPT-2``."""
    return Markup(" ").join(
        Markup('<span class="whole">{}</span>').format(word) if "-" in word and len(word) < 24 else escape(word)
        for word in text.split(" ")
    )


def policy(bundle: str, script: str, css: str) -> str:
    """The content security policy: these two scripts, this style sheet, data: fonts, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_source(bundle)} {_source(script)}",
            f"style-src {_source(css)}",
            "font-src data:",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _font_face(folder: Path, name: str, weight: int) -> str:
    data = base64.b64encode((folder / f"Inter-{name}.woff2").read_bytes()).decode()
    return (
        f"@font-face{{font-family:Inter;font-weight:{weight};font-display:block;"
        f'src:url(data:font/woff2;base64,{data}) format("woff2")}}\n'
    )
