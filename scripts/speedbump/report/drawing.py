"""All charts of a study: the sections' drawings over shared data sets."""

from speedbump.report.charts import Drawing, Rows
from speedbump.report.points import curve_points, repeat_points, spans
from speedbump.report.published import Published
from speedbump.report.sections import SECTIONS
from speedbump.report.study import Study


def draw_study(study: Study, published: Published) -> Drawing:
    """Draw every section that has data."""
    datasets = curve_datasets(study)
    charts = []
    for section in SECTIONS:
        drawing = section.draw(study, datasets, published)
        charts += drawing.charts
        datasets |= drawing.datasets
    used = {name for chart in charts for name in chart.data.values()}
    return Drawing(charts, {name: datasets.get(name, []) for name in sorted(used)})


def curve_datasets(study: Study) -> dict[str, Rows]:
    """Points, repeats and spans of every curve that has a measurement."""
    repeats = repeat_points(study)
    datasets: dict[str, Rows] = {}
    for curve in study.curves:
        if not curve.budgets.is_empty():
            datasets[curve.key] = curve_points(curve)
            datasets[f"{curve.key}-repeats"] = repeats.get(curve.series, [])
            datasets[f"{curve.key}-spans"] = spans(curve)
    return datasets
