"""The summary of a budget: a robust centre of its repeats, and how well that centre is known."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from speedbump.analyse.curve import QUIET_SD, Array, Curve, Indices

PRIOR_DF = 4.0
"""Degrees of freedom that the pooled variance is worth when a budget's own variance is moderated."""
PROCESS_SD = 0.05
"""Standard deviation expected between the centres of a budget's processes. Not pooled over the budgets: those
measured again are those that looked odd."""
ASSUMED_SD = 0.1
"""Standard deviation of log repeats where nothing tells: one repeat a budget, or a mean published without one."""
BOUND_SD = 0.03
"""Nominal standard error of a lower bound's place; the bound itself is exact."""
_SMALLEST_VARIANCE = 1e-5
_LEAST_SEVERAL = 4
_CHI2_MEDIAN = np.array([np.nan, *(chi2.ppf(0.5, df) / df for df in range(1, 60))])


@dataclass(frozen=True)
class Summary:
    """Per budget, in logs of seconds; arrays of shape (n,).

    centre: median of up to four repeats, trimmed mean from five on; with several processes the mean of two
    processes' centres, the median of more.  A censored budget's centre is its bound.
    variance: of the centre, squared standard error.
    spread: variance of one repeat, not moderated; pooled where the budget has one repeat.
    count: repeats.  df: degrees of freedom behind spread.  processes: that they come from.
    pooled: typical variance of one repeat over all budgets, a scalar.
    unrest: standard deviation of whole processes, by the fixed workload (see Curve) or by the processes
    themselves, whichever is larger; part of variance.
    """

    centre: Array
    variance: Array
    spread: Array
    count: Array
    df: Array
    processes: Array
    pooled: float
    unrest: float = 0.0


def summarise(curve: Curve) -> Summary:
    """Robust centre and moderated standard error of every budget.

    Trimming: one repeat at each side for 5 to 9, 20 % from 10, with the winsorised variance that belongs to
    it (Tukey & McLaughlin 1963). Variances are moderated by their pooled value, worth PRIOR_DF degrees of
    freedom (Smyth 2004, limma). Repeats of a process share its conditions, so where a budget has several
    processes the error is the larger of that between processes and that of the repeats.
    """
    if curve.published is not None:
        return _summarise_published(curve)
    n = curve.n
    groups = [values for processes in curve.repeats for values in processes]
    owner = np.repeat(np.arange(n), [len(processes) for processes in curve.repeats])
    centres, variances, dfs, inflation = _centres(groups)
    size = np.array([len(values) for values in groups], float)

    pooled = _pool(variances, dfs)
    count, df, within = (_sum(owner, w, n) for w in (size, dfs, np.where(dfs > 0, dfs * variances, 0.0)))
    spread = np.divide(within, df, out=np.full(n, pooled), where=df > 0)
    moderated = (PRIOR_DF * pooled + within) / (PRIOR_DF + df)
    repeat_error = moderated * _sum(owner, inflation / size, n)
    processes = np.bincount(owner, minlength=n)
    centre = curve.bound.copy()
    variance = np.full(n, BOUND_SD**2)
    one = processes == 1
    centre[owner[one[owner]]] = centres[one[owner]]
    variance[one] = repeat_error[one]
    several = np.flatnonzero(processes > 1)
    if len(several):
        between = np.array([centres[owner == i].var(ddof=1) for i in several])
        freedom = processes[several] - 1.0
        error = (PRIOR_DF * PROCESS_SD**2 + freedom * between) / (PRIOR_DF + freedom) / processes[several]
        variance[several] = np.maximum(error, repeat_error[several] / processes[several] ** 2)
        centre[several] = [np.median(centres[owner == i]) for i in several]
    unrest = max(curve.unrest, _unrest(centres, owner, several, n))
    at_least_one = np.maximum(processes, 1.0)
    variance = variance + np.where(curve.censored, 0.0, unrest**2) / at_least_one
    return Summary(centre, variance, spread, np.maximum(count, 1.0), df, at_least_one, pooled, unrest)


def _unrest(centres: Array, owner: Indices, several: Indices, n: int) -> float:
    """Robust standard deviation of whole processes, where at least half of the budgets have several of them;
    fewer were measured again because they looked odd, and say nothing of the others.
    """
    if len(several) < max(n / 2, _LEAST_SEVERAL):
        return 0.0
    apart = []
    for i in several:
        own = centres[owner == i]
        apart.append(np.abs(own - own.mean()) * np.sqrt(len(own) / (len(own) - 1)))
    spread = 1.4826 * float(np.median(np.concatenate(apart)))
    return float(np.sqrt(max(spread**2 - QUIET_SD**2, 0.0)))


def _sum(owner: Indices, values: Array, n: int) -> Array:
    """Sum of the values of every owner, shape (n,)."""
    return np.bincount(owner, values, n).astype(float)


def _centres(groups: list[Array]) -> tuple[Array, Array, Array, Array]:
    """Of every group: centre, variance of one repeat, its degrees of freedom, inflation of the centre's variance."""
    sizes = np.array([len(values) for values in groups])
    centre, variance, df, inflation = (np.empty(len(groups)) for _ in range(4))
    for size in np.unique(sizes):
        of_size = np.flatnonzero(sizes == size)
        values = np.sort(np.stack([groups[g] for g in of_size]), axis=1)
        if size <= 4:
            centre[of_size] = np.median(values, axis=1)
            variance[of_size] = values.var(axis=1, ddof=1) if size > 1 else np.nan
            inflation[of_size] = 1.35 if size > 2 else 1.0
            df[of_size] = size - 1
        else:
            cut = 1 if size < 10 else size // 5
            kept = values[:, cut : size - cut]
            centre[of_size] = kept.mean(axis=1)
            winsorised = np.clip(values, kept[:, :1], kept[:, -1:])
            variance[of_size] = winsorised.var(axis=1, ddof=1) / (1 - 2 * cut / size) ** 2
            inflation[of_size] = 1.0
            df[of_size] = size - 1 - 2 * cut
    return centre, variance, df, inflation


def _pool(variances: Array, df: Array) -> float:
    """Typical variance: median over the groups, each freed of the skew of its chi-squared distribution."""
    known = df > 0
    if not known.any():
        return ASSUMED_SD**2
    skew = _CHI2_MEDIAN[np.minimum(df[known], 59).astype(int)]
    return max(float(np.median(variances[known] / skew)), _SMALLEST_VARIANCE)


def _summarise_published(curve: Curve) -> Summary:
    """Of log-normal requests with the published mean and standard deviation."""
    assert curve.published is not None
    table = curve.published
    known = ~np.isnan(table.sd_s) & (table.count > 1)
    variances = np.log1p((np.where(known, table.sd_s, 0.0) / table.mean_s) ** 2)
    df = np.where(known, table.count - 1, 0.0)
    pooled = _pool(variances, df)
    spread = np.where(known, variances, pooled)
    moderated = (PRIOR_DF * pooled + df * spread) / (PRIOR_DF + df)
    centre = np.log(table.mean_s) - np.where(known, spread / 2, 0.0)
    return Summary(centre, moderated / table.count, spread, table.count, df, np.ones(curve.n), pooled)
