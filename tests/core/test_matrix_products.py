"""Products of matrices inside kernels, dense and sparse: those of NumPy."""

import numpy as np
import pytest

from keisei.compiled.kernels import kernel
from keisei.core.matrix_products import add_product
from keisei.core.sparse_rows import (
    add_sparse_product,
    add_turned_sparse_product,
    count_nonzero,
    sparse_rows,
)

pytestmark = pytest.mark.uncompiled
SIZES = [(1, 1, 1), (4, 4, 16), (5, 6, 7), (11, 3, 33), (3, 9, 1), (8, 13, 20)]


def random(*shape, zeros=0.0):
    generator = np.random.default_rng(sum(shape))
    numbers = generator.standard_normal(shape).astype(np.float32)
    numbers[generator.random(shape) < zeros] = 0
    return numbers


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "inner", "columns"), SIZES)
def test_a_product_is_added(rows, inner, columns, turned):
    left, right, total = random(rows, inner), random(inner, columns), random(rows, columns)
    expected = total + left @ right
    add_product(np.asfortranarray(left) if turned else left, right, total)
    assert np.allclose(total, expected, atol=1e-5)


def test_what_is_not_a_number_is_seen():
    left, right = random(5, 6), random(6, 3)
    left[4, 5] = np.nan
    total = np.zeros((5, 3), np.float32)
    add_product(left, right, total)
    assert np.isnan(total[4]).all()
    assert np.isfinite(total[:4]).all()


@kernel(entry=True)
def sparse_products(rows, chosen, right, total, slopes, of_right):
    room = count_nonzero(rows) + 1
    places, numbers = np.empty(room, np.int32), np.empty(room, np.float32)
    sparse = sparse_rows(rows, np.empty(len(rows) + 1, np.int64), places, numbers)
    add_sparse_product(sparse, chosen, right, total)
    add_turned_sparse_product(sparse, chosen, slopes, of_right)
    return len(sparse.starts)


@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.9, 1.0])
def test_sparse_products_are_those_of_the_whole_rows(zeros):
    rows, chosen = random(9, 14, zeros=zeros), np.array([8, 0, 3, 3, 5])
    right, slopes = random(14, 6), random(5, 6)
    total, of_right = np.ones((5, 6), np.float32), np.ones((14, 6), np.float32)
    assert sparse_products(rows, chosen, right, total, slopes, of_right) == 10
    assert np.allclose(total, 1 + rows[chosen] @ right, atol=1e-5)
    assert np.allclose(of_right, 1 + rows[chosen].T @ slopes, atol=1e-5)
