"""Whose swap it was."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from speedbump.grid.swap import Demand, others_swap_bytes, own_swap_bytes

GIB = 2**30
PAPER = Demand(
    total_bytes=36 * GIB,
    available_before_bytes=29 * GIB,
    needed_bytes=26 * GIB,
    swapped_bytes=3 * GIB,
    others_grew_bytes=-GIB,
)
SIZES = st.integers(0, 200 * GIB)


def test_a_cell_that_needs_nearly_all_the_memory_causes_the_swap():
    assert own_swap_bytes(PAPER) == 3 * GIB


def test_a_cell_that_fits_causes_none():
    assert own_swap_bytes(replace(PAPER, needed_bytes=2 * GIB)) == 0
    assert others_swap_bytes(replace(PAPER, needed_bytes=2 * GIB)) == 3 * GIB


def test_a_cell_causes_no_more_swap_than_it_needs_memory():
    full = replace(PAPER, available_before_bytes=GIB, needed_bytes=GIB, swapped_bytes=3 * GIB)
    assert (own_swap_bytes(full), others_swap_bytes(full)) == (GIB, 2 * GIB)


def test_swap_is_shared_out_by_what_each_asked_for():
    shared = replace(PAPER, others_grew_bytes=13 * GIB)
    assert (own_swap_bytes(shared), others_swap_bytes(shared)) == (2 * GIB, GIB)


@given(SIZES, SIZES, SIZES, st.integers(-GIB, 200 * GIB), st.integers(-200 * GIB, 200 * GIB))
def test_the_two_parts_are_never_negative_and_make_up_the_growth(total, available, needed, swapped, others):
    demand = Demand(total, available, needed, swapped, others)
    own, rest = own_swap_bytes(demand), others_swap_bytes(demand)
    assert own >= 0
    assert rest >= 0
    assert own + rest == max(0, swapped)
    more = replace(demand, others_grew_bytes=others + GIB)
    assert own_swap_bytes(more) <= own
