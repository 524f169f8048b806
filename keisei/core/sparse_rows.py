"""Rows most of whose numbers are 0, inside kernels: what is 0 costs nothing.

What an agent sees is a square of cells with a 1 for the kind that stands there, of six kinds in
treasurehunt. Rows [N, K] are kept as `SparseRows`: what is not 0 in all of them, one row behind the
other. Sums are made as in `matrix_products`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import fused


class SparseRows(NamedTuple):
    """N rows of K numbers."""

    starts: NDArray[np.int64]
    """[N + 1] where each row begins in the other two."""
    places: NDArray[np.int32]
    """Where in its row a number stands."""
    numbers: NDArray[np.float32]


@kernel
def count_nonzero(rows):
    """How many numbers of [N, K] are not 0."""
    count = 0
    for row in range(len(rows)):
        for number in rows[row]:
            count += number != 0
    return count


@kernel
def sparse_rows(rows, starts, places, numbers):
    """Rows [N, K] as sparse ones in this memory.

    starts: [N + 1]; places and numbers have room for all that is not 0, and for one more.
    """
    found = 0
    for row in range(len(rows)):
        starts[row] = found
        for k in range(rows.shape[1]):  # without a branch: each is written over if it is 0
            places[found], numbers[found] = k, rows[row, k]
            found += rows[row, k] != 0
    starts[len(rows)] = found
    return SparseRows(starts, places, numbers)


@kernel
def add_sparse_product(rows, chosen, right, total):
    """Add the rows with the numbers `chosen` [R] @ right [K, J] to total [R, J]."""
    columns = total.shape[1]
    for i in range(len(chosen)):
        begin, end = rows.starts[chosen[i]], rows.starts[chosen[i] + 1]
        whole = end - (end - begin) % 4
        for n in range(begin, whole, 4):
            k0, k1, k2, k3 = (
                rows.places[n], rows.places[n + 1], rows.places[n + 2], rows.places[n + 3]
            )  # fmt: skip
            a0, a1, a2, a3 = (
                rows.numbers[n], rows.numbers[n + 1], rows.numbers[n + 2], rows.numbers[n + 3]
            )  # fmt: skip
            for j in range(columns):
                two = fused(a1, right[k1, j], fused(a0, right[k0, j], total[i, j]))
                total[i, j] = fused(a3, right[k3, j], fused(a2, right[k2, j], two))
        for n in range(whole, end):
            k, factor = rows.places[n], rows.numbers[n]
            for j in range(columns):
                total[i, j] = fused(factor, right[k, j], total[i, j])


@kernel
def add_turned_sparse_product(rows, chosen, right, total):
    """Add the same rows, turned to [K, R], @ right [R, J] to total [K, J]."""
    columns = total.shape[1]
    for i in range(len(chosen)):
        for n in range(rows.starts[chosen[i]], rows.starts[chosen[i] + 1]):
            k, factor = rows.places[n], rows.numbers[n]
            for j in range(columns):
                total[k, j] = fused(factor, right[i, j], total[k, j])
