"""Lists of legal moves packed into a pool come out as they went in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.core.legal_pool import append_legal, padded_legal
from keisei.shogi.position import NUM_ACTIONS

LISTS = st.lists(
    st.lists(st.integers(0, NUM_ACTIONS - 1), max_size=12).map(tuple), min_size=1, max_size=8
)


def rows_of(lists):
    """The lists as rows [N, 12] with what is behind them, and their lengths."""
    rows = np.full((len(lists), 12), NUM_ACTIONS, np.uint16)
    for row, moves in enumerate(lists):
        rows[row, : len(moves)] = moves
    return rows, np.array([len(moves) for moves in lists], np.int32)


@pytest.mark.uncompiled
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(LISTS, min_size=1, max_size=4), spare=st.integers(0, 5), data=st.data())
def test_lists_packed_into_the_pool_come_out_in_any_order(steps, spare, data):
    total = sum(len(moves) for lists in steps for moves in lists)
    pool, used = np.full(total + spare, 7, np.uint16), 0
    starts, counts = [], []
    for lists in steps:
        rows, lengths = rows_of(lists)
        begins = np.zeros(len(lists), np.int32)
        used = append_legal(pool, used, rows, lengths, begins)
        starts.append(begins)
        counts.append(lengths)
    assert used == total
    assert (pool[total:] == 7).all()
    everything = [moves for lists in steps for moves in lists]
    order = data.draw(st.permutations(range(len(everything))))
    padded = np.full((len(order), 12), -1, np.int16)
    padded_legal(pool, np.concatenate(starts)[order], np.concatenate(counts)[order], padded)
    assert [tuple(row[row >= 0].tolist()) for row in padded] == [everything[i] for i in order]


@pytest.mark.uncompiled
@settings(max_examples=40, deadline=None)
@given(lists=LISTS.filter(any), used=st.integers(0, 5), missing=st.integers(1, 3))
def test_a_pool_that_is_too_small_is_left_as_it_is(lists, used, missing):
    rows, lengths = rows_of(lists)
    pool = np.full(max(used + int(lengths.sum()) - missing, 0), 7, np.uint16)
    starts = np.full(len(lists), -1, np.int32)
    assert append_legal(pool, used, rows, lengths, starts) == -1
    assert (pool == 7).all()
    assert (starts == -1).all()
