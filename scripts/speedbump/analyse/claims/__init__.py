"""The paper's claims, each a small function over evidence: measured here, or published."""
