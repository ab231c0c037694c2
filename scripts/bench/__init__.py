"""Simulated series of known truth, and how well the regime finder does on them."""
