"""Static pictures: made small without touching what they say."""

import re

from speedbump.report.charts import shrink_svg


def test_coordinates_are_shortened_and_numbers_that_are_read_are_not():
    svg = (
        '<svg class="marks" width="200" height="100" viewBox="0 0 200 100"><g transform="translate(10.4567,3.0004)">'
        '<path d="M1.23456,2.34567L3.00001,4" stroke="red"/><text transform="translate(1.999,2)">0.005</text>'
        "<text>12.345 s</text></g></svg>"
    )
    small = shrink_svg(svg, "chart")
    assert re.findall(r">([^<>]+)</text>", small) == ["0.005", "12.345 s"]
    assert "M1.2,2.3L3,4" in small
