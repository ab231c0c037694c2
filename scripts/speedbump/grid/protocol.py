"""The version of the measuring code: part of every cell's identity."""

PROTOCOL = 1
"""Raise it when a change to the measuring code can change a measurement: every cell is then new."""
