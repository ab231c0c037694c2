"""Ranges of whole numbers as llama-bench writes them: ``480-656+16``, ``128-1024*2``."""

import re

LONGEST = 10_000
_RANGE = re.compile(r"(\d+)-(\d+)(?:([+*])(\d+))?")
FORM = "a whole number, first-last+step such as 480-656+16, or first-last*factor such as 128-1024*2"


class RangeError(ValueError):
    """Not a range; the message says what would be one."""


def parse_range(text: str | int) -> list[int]:
    """The numbers of ``480-656+16`` (both ends included where the step meets them), ``128-1024*2``,
    ``1-4`` (step 1), ``512``, or several of these between commas, in the order written.

    Raises RangeError when the text is none of them, falls, is empty, or is longer than LONGEST.
    """
    if isinstance(text, bool) or not isinstance(text, int | str):
        raise RangeError(f"{text!r} is not {FORM}")
    numbers: list[int] = []
    for part in str(text).split(","):
        numbers += _parse_part(part.strip())
        if len(numbers) > LONGEST:
            raise RangeError(f"{text!r} has more than {LONGEST} numbers")
    return list(dict.fromkeys(numbers))


def _parse_part(part: str) -> list[int]:
    if re.fullmatch(r"\d{1,12}", part):
        return [int(part)]
    match = _RANGE.fullmatch(part)
    if match is None or any(len(digits or "") > 12 for digits in match.groups()):
        raise RangeError(f"{part!r} is not {FORM}")
    first, last, step = int(match[1]), int(match[2]), int(match[4] or 1)
    if first > last:
        raise RangeError(f"{part!r} falls: write the smaller number first")
    if match[3] == "*":
        if step < 2 or first < 1:
            raise RangeError(f"{part!r} never ends: a factor is at least 2 and its range starts at 1 or more")
        numbers = [first]
        while (following := numbers[-1] * step) <= last:
            numbers.append(following)
        return numbers
    if step < 1:
        raise RangeError(f"{part!r} never ends: a step is at least 1")
    if (last - first) // step >= LONGEST:
        raise RangeError(f"{part!r} has more than {LONGEST} numbers")
    return list(range(first, last + 1, step))
