"""Why it is slow: what each hypothesis predicts, what was seen, and what follows."""
