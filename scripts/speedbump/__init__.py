"""Speedbump: find the decode lengths at which a language model's runtime falls off a cliff.

Four rooms, and none imports one to its right: grid (what to measure), measure (measuring it),
analyse (what the numbers say), report (the page). ``tables`` is the form in which they hand on data.
"""

__version__ = "0.1.0"
