"""Charts: specification, data and the static picture, each stored once.

A chart's specification holds no data and no numbers of its own. Data sets are named and shared by all
charts; ranges and ticks are parameters. So sixty curves drawn alike need one specification, and a page
can carry them all.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from speedbump.grid.listing import visible
from speedbump.report.theme import CONFIG, HEIGHT

VEGA_LITE = "6.4"

NUMBER = r"-?\d+(?:\.\d+)?"
CIRCLE = re.compile(
    rf'<path transform="translate\(({NUMBER}),({NUMBER})\)" '
    rf'd="M({NUMBER}),0A\3,\3,0,1,1,-\3,0A\3,\3,0,1,1,\3,0"([^>]*)/>'
)
LEAVES = re.compile(r"<g([^>]*)>((?:<(?:path|circle|line)[^>]*/>|<text[^>]*>[^<]*</text>)+)</g>")
LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
ATTRIBUTE = re.compile(r' ([a-z-]+)="([^"]*)"')
SHAREABLE = frozenset(
    (
        *("fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap"),
        *("font-family", "font-size", "font-weight", "text-anchor"),
    )
)
"""Attributes that a group hands on to its elements."""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Chart:
    """One picture.

    spec: the Vega-Lite specification without data, parameters, width and theme.
    data: which data set each name in the specification stands for.
    parameters: what the specification calls ``x_min``, ``y_ticks`` and so on.
    description: the text alternative; it holds the numbers.
    """

    name: str
    spec: dict[str, Any]
    data: dict[str, str]
    parameters: dict[str, Any]
    width: int
    description: str


@dataclass(frozen=True)
class Drawing:
    """The charts of a section and the data sets they use."""

    charts: list[Chart]
    datasets: dict[str, Rows]


def make_chart(
    name: str,
    layers: Iterable[alt.Chart | alt.LayerChart],
    data: dict[str, str],
    parameters: dict[str, Any],
    width: int,
    description: str,
    height: int = HEIGHT,
) -> Chart:
    """A chart of Altair layers whose data are ``alt.NamedData``. Parameters are used in them as ``alt.ExprRef``."""
    spec = alt.layer(*layers).properties(height=height).to_dict()
    for key in ("$schema", "config"):
        spec.pop(key, None)
    return Chart(name, spec, data, parameters, width, description)


def draw_static(chart: Chart, datasets: dict[str, Rows]) -> str:
    """The chart as an inline SVG: no script, no fixed colours, ids of its own, hidden from screen readers."""
    spec = {
        **chart.spec,
        "width": chart.width,
        "config": CONFIG,
        "params": [{"name": key, "value": value} for key, value in chart.parameters.items()],
        "datasets": {role: datasets[name] for role, name in chart.data.items()},
    }
    return shrink_svg(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE), chart.name)


def shrink_svg(svg: str, prefix: str) -> str:
    """The same picture in fewer bytes: a tenth of a pixel is enough, and nothing reads its roles."""
    svg = re.sub(r' (?:aria-[a-z]+|role|class|pointer-events|aria-hidden)="[^"]*"', "", svg)
    svg = re.sub(r'<path d="[^"]*" display="none"/>|<path d=""[^>]*/>|<path d="M0,0h0v0h0Z"/>', "", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: LONG_NUMBER.sub(_shortened, tag[0]), svg)
    svg = svg.replace(' opacity="1"', "").replace(' transform="translate(0,0)"', "")
    while (smaller := re.sub(r"<g>(?:<g>)*</g>|<g[^>]*></g>|<g/>", "", svg)) != svg:
        svg = smaller
    svg = CIRCLE.sub(r'<circle cx="\1" cy="\2" r="\3"\4/>', svg)
    svg = LEAVES.sub(_share_attributes, svg)
    names = {name: f"{prefix}-{number}" for number, name in enumerate(dict.fromkeys(re.findall(r'id="([^"]+)"', svg)))}
    for old, new in names.items():
        svg = svg.replace(f'id="{old}"', f'id="{new}"').replace(f"url(#{old})", f"url(#{new})")
    return re.sub(
        r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>',
        r'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \1 \2" width="\1" height="\2" '
        r'aria-hidden="true" focusable="false">',
        svg,
        count=1,
    )


def _shortened(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")


def _share_attributes(group: re.Match[str]) -> str:
    """The group with what all its elements have in common said once."""
    elements = [dict(ATTRIBUTE.findall(tag)) for tag in re.findall(r"<(?:path|circle|line|text)[^>]*>", group[2])]
    shared = {
        f' {name}="{value}"'
        for name, value in elements[0].items()
        if name in SHAREABLE and all(other.get(name) == value for other in elements)
    }
    body = group[2]
    for attribute in shared:
        body = body.replace(attribute, "")
    return f"<g{group[1]}{''.join(sorted(shared))}>{body}</g>"


def write_drawing(drawing: Drawing, folder: Path, fonts: Path) -> None:
    """Write ``<chart>.json`` and ``<chart>.svg`` for every chart, and ``data.json`` with all data sets."""
    folder.mkdir(parents=True, exist_ok=True)
    vl_convert.register_font_directory(str(fonts))
    for chart in drawing.charts:
        (folder / f"{chart.name}.json").write_text(compact_json(asdict(chart)), encoding="utf-8")
        (folder / f"{chart.name}.svg").write_text(draw_static(chart, drawing.datasets), encoding="utf-8")
    (folder / "data.json").write_text(compact_json(drawing.datasets), encoding="utf-8")


def read_drawing(folder: Path) -> tuple[Drawing, dict[str, str]]:
    """The drawing that ``write_drawing`` wrote, and every chart's SVG by the chart's name."""
    datasets = json.loads((folder / "data.json").read_text(encoding="utf-8"))
    files = [path for path in visible(folder, "*.json") if path.name != "data.json"]
    charts = [Chart(**json.loads(path.read_text(encoding="utf-8"))) for path in files]
    pictures = {chart.name: (folder / f"{chart.name}.svg").read_text(encoding="utf-8") for chart in charts}
    return Drawing(charts, datasets), pictures


def live_charts(drawing: Drawing) -> dict[str, Any]:
    """What the page needs to draw its charts anew: every distinct specification once, data sets by column."""
    specs: dict[str, int] = {}
    charts = {}
    for chart in drawing.charts:
        number = specs.setdefault(compact_json(chart.spec), len(specs))
        charts[chart.name] = {"spec": number, "data": chart.data, "parameters": chart.parameters}
    used = {name for chart in drawing.charts for name in chart.data.values()}
    return {
        "config": CONFIG,
        "specs": [json.loads(spec) for spec in specs],
        "charts": charts,
        "datasets": {name: _by_column(rows) for name, rows in sorted(drawing.datasets.items()) if name in used},
    }


def compact_json(value: Any) -> str:
    """JSON in the fewest bytes. Raises ValueError for NaN and infinities, which are not JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _by_column(rows: Rows) -> dict[str, list[Any]]:
    return {column: [row[column] for row in rows] for column in rows[0]} if rows else {}
