"""A thousand series of 60 budgets and 5 repeats: ten times what a hundred cost, and under half a gigabyte.

Seconds are not asserted, since they are the machine's: ``docs/regimes.md`` has milliseconds a series. What would
have been noticed costs far more, and is bounded for one curve in test_noticed.py.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, pathlib, re, resource, time
import numpy as np, polars as pl
from speedbump.analyse.regimes import find_regimes
from speedbump.grid.axes import DEFAULTS
from speedbump.tables import REQUESTS

def cost(series):
    budgets, repeats = np.arange(16, 976, 16), 5
    s, b, _ = (index.ravel() for index in np.indices((series, len(budgets), repeats)))
    n_gen = budgets[b]
    slow = (s % 2 == 0) & (n_gen >= 512) & (n_gen <= 624)
    e2e_s = (0.1 + 0.01 * n_gen) * np.where(slow, 10, 1) * np.exp(np.random.default_rng(0).normal(0, 0.05, s.size))
    own = {"series": s, "n_prompt": s + 1, "cell": s * 1000 + b, "n_gen": n_gen, "e2e_s": e2e_s}
    fixed = DEFAULTS | {"phase": "measured", "status": "ok", "lower_bound": False}
    frame = pl.DataFrame(own).select(
        (pl.col(name) if name in own else pl.lit(fixed.get(name))).cast(dtype).alias(name)
        for name, dtype in REQUESTS.schema.items()
    )
    start = time.process_time()
    found = find_regimes(frame, notice=False)
    return time.process_time() - start, found.regimes.height

cost(20)
few, many = cost(100), cost(1000)
status = pathlib.Path("/proc/self/status")
if status.exists():  # Linux counts in ru_maxrss what the parent held before this program was loaded
    peak_bytes = int(re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text())[1]) * 1024
else:
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "growth": many[0] / few[0],
    "mb": peak_bytes / 1e6,
    "regimes": many[1],
}))
"""


@pytest.mark.simulation
def test_a_thousand_series():
    scripts = Path(__file__).parents[2] / "scripts"
    environment = {"PYTHONPATH": str(scripts), "POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    cost = json.loads(done.stdout)
    assert cost["regimes"] == 500
    assert cost["growth"] < 20, "in proportion to the number of series: ten times"
    assert cost["mb"] < 500
