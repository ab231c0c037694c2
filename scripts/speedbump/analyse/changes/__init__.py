"""What changed between two places, that is two stacks of one machine, or two machines: series by series."""
