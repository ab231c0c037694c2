"""What the requests say: summaries, regimes, refinement."""
