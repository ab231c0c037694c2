"""What to measure: studies, axes, ranges, cells, and the machine they belong to."""
