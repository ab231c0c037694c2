"""What a call of the pipeline measures: cells and run files by experiment and stack, and what is left."""
