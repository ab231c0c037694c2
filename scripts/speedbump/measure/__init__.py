"""Measuring one cell: a supervisor, and the worker it starts (the only code that imports torch)."""
