"""Cells are measured in an order that looks random, and is the same again for the same seed."""

from speedbump.grid.order import measuring_order


def test_the_order_is_shuffled_by_the_seed_alone():
    names = [f"gpt2.cpu.{n_gen}" for n_gen in range(64)]
    first, again, other = ([measuring_order(name, seed) for name in names] for seed in (0, 0, 1))
    assert first == again
    assert sorted(names, key=lambda name: measuring_order(name, 0)) != names
    assert sorted(zip(first, names, strict=True)) != sorted(zip(other, names, strict=True))
    assert all(type(priority) is int and 0 <= priority < 2**32 for priority in first)
