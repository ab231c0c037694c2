"""The page: findings in words, charts, the static site."""
