import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedbump.grid.ranges import LONGEST, RangeError, parse_range


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("480-528+16", [480, 496, 512, 528]),
        ("480-530+16", [480, 496, 512, 528]),
        ("128-1024*2", [128, 256, 512, 1024]),
        ("128-1000*2", [128, 256, 512]),
        ("3-5", [3, 4, 5]),
        ("512", [512]),
        (512, [512]),
        ("1, 8-10+2, 8", [1, 8, 10]),
    ],
)
def test_ranges_as_llama_bench_writes_them(text, numbers):
    assert parse_range(text) == numbers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a whole number"),
        ("a-b+2", "is not a whole number"),
        ("640-480+16", "falls"),
        ("1-9+0", "at least 1"),
        ("1-9*1", "at least 2"),
        ("0-9*2", "never ends"),
        ("1-99999999", "more than"),
        ("-5", "is not a whole number"),
        ("5-10+2.5", "is not a whole number"),
        (True, "is not a whole number"),
        (2.5, "is not a whole number"),
        ("1" * 40, "is not a whole number"),
    ],
)
def test_what_is_no_range_says_what_would_be(text, says):
    with pytest.raises(RangeError, match=says):
        parse_range(text)


@given(st.integers(0, 10**6), st.integers(1, 5000), st.integers(0, LONGEST - 1))
def test_a_stepped_range_is_what_counting_gives(first, step, count):
    numbers = parse_range(f"{first}-{first + count * step}+{step}")
    assert numbers == [first + i * step for i in range(count + 1)]


@given(st.text(max_size=20))
def test_any_text_is_numbers_or_one_line(text):
    try:
        numbers = parse_range(text)
    except RangeError as error:
        numbers, message = [], str(error)
    else:
        message = "no error"
    assert len(numbers) == len(set(numbers))
    assert all(number >= 0 for number in numbers)
    assert message
    assert "\n" not in message
