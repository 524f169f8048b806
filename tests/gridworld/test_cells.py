import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keisei.gridworld.cells import Cells
from keisei.gridworld.errors import WorldError

shapes = st.tuples(*[st.integers(1, 4)] * 4)


@settings(max_examples=60, deadline=None)
@given(shapes, st.data())
def test_cells_know_their_copies_rows_columns_and_layers(shape, data):
    size = int(np.prod(shape))
    flat = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    cells = Cells(flat, shape)
    copies, rows, columns, layers = np.unravel_index(flat, shape)
    assert len(cells) == len(flat)
    assert np.array_equal(cells.copies, copies)
    assert np.array_equal(cells.rows, rows)
    assert np.array_equal(cells.columns, columns)
    assert np.array_equal(cells.layers, layers)
    numbered = np.arange(size).reshape(shape)
    assert np.array_equal(numbered[cells.index], flat)


@settings(max_examples=60, deadline=None)
@given(shapes, st.data())
def test_on_another_layer_cells_keep_copy_row_and_column(shape, data):
    cells = Cells(np.arange(int(np.prod(shape))), shape)
    layer = data.draw(st.integers(0, shape[3] - 1))
    moved = cells.on_layer(layer)
    assert np.array_equal(moved.copies, cells.copies)
    assert np.array_equal(moved.rows, cells.rows)
    assert np.array_equal(moved.columns, cells.columns)
    assert (moved.layers == layer).all()


def test_some_cells_are_chosen_by_a_mask_by_their_places_or_as_a_slice():
    cells = Cells(np.array([2, 3, 5, 7]), (1, 2, 2, 2))
    assert cells[np.array([True, False, False, True])].flat.tolist() == [2, 7]
    assert cells[np.array([1, 2])].flat.tolist() == [3, 5]
    assert cells[1:].flat.tolist() == [3, 5, 7]
    assert cells[1:].shape == cells.shape


@pytest.mark.parametrize("layer", [-1, 2])
def test_a_layer_that_is_not_there_is_refused(layer):
    with pytest.raises(WorldError, match=f"no layer {layer}"):
        Cells(np.array([2, 3]), (1, 2, 2, 2)).on_layer(layer)
