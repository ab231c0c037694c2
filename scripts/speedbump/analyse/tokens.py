"""What a budget's requests generated."""

import polars as pl


def common_tokens(requests: pl.DataFrame) -> pl.DataFrame:
    """Columns series, n_gen and tokens: the hash that all the budget's finished requests share, null where they do
    not agree.
    """
    finished = requests.filter((pl.col("status") == "ok") & (pl.col("phase") == "measured"))
    agree = pl.col("tokens_hash").n_unique() == 1
    return finished.group_by("series", "n_gen").agg(tokens=pl.when(agree).then(pl.col("tokens_hash").first()))
