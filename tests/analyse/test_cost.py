"""A thousand series of 60 budgets and 5 repeats: twenty seconds of one core, half a gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, resource, time
import numpy as np, polars as pl
from speedbump.analyse.regimes import find_regimes
from speedbump.grid.axes import DEFAULTS
from speedbump.tables import REQUESTS

series, budgets, repeats = 1000, np.arange(16, 976, 16), 5
shape = (series, len(budgets), repeats)
s, b, _ = (index.ravel() for index in np.indices(shape))
n_gen = budgets[b]
slow = (s % 2 == 0) & (n_gen >= 512) & (n_gen <= 624)
e2e_s = (0.1 + 0.01 * n_gen) * np.where(slow, 10, 1) * np.exp(np.random.default_rng(0).normal(0, 0.05, s.size))
own = {"series": s, "cell": s * 1000 + b, "n_gen": n_gen, "e2e_s": e2e_s}
fixed = DEFAULTS | {"phase": "measured", "status": "ok", "lower_bound": False}
frame = pl.DataFrame(own).select(
    (pl.col(name) if name in own else pl.lit(fixed.get(name))).cast(dtype).alias(name)
    for name, dtype in REQUESTS.schema.items()
)
start = time.process_time()
found = find_regimes(frame)
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "seconds": time.process_time() - start,
    "mb": used / 1024 if used < 1e8 else used / 1024**2,
    "regimes": found.regimes.height,
}))
"""


@pytest.mark.simulation
def test_a_thousand_series():
    scripts = Path(__file__).parents[2] / "scripts"
    environment = {"PYTHONPATH": str(scripts), "POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    cost = json.loads(done.stdout)
    assert cost["regimes"] == 500
    assert cost["seconds"] < 20
    assert cost["mb"] < 500
