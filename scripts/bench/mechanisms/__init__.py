"""Simulated machines, each slow for a known reason, and how well the analysis names it. Nothing here was measured."""
