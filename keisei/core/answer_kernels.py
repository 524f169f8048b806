"""What the network of `tower_kernels` says of positions: the logits of moves, and values.

Some positions at a time, from their bytes to the answer, so that what lies between stays in the
processor's own cache, also where another process takes its turn every few milliseconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keisei.compiled.kernels import kernel
from keisei.core.convolution_code import BOARD_SQUARES
from keisei.core.matrix_products import add_product
from keisei.core.tower_kernels import VALUE_CHANNELS, WIDTH, tower_forward
from keisei.shogi.plane_kernel import write_sparse_planes

ROWS_AT_ONCE = 16
_ZERO = np.float32(0)
Floats = NDArray[np.float32]


class Weights(NamedTuple):
    """A network's weights as the kernels read them, see `tower_forward` and `tower_backward`."""

    stem: Floats
    stem_bias: Floats
    tower: NDArray[np.uint16]
    tower_back: NDArray[np.uint16]
    tower_biases: Floats
    heads: NDArray[np.uint16]
    heads_back: NDArray[np.uint16]
    heads_bias: Floats
    hidden: Floats
    """[4 * 81, H]: of the value's hidden layer."""
    hidden_back: Floats
    """[H, 4 * 81]"""
    hidden_bias: Floats
    last: Floats
    """[H]: what makes a number of it."""
    last_bias: Floats
    """[1]"""


@kernel(entry=True)
def answer_moves(positions, expansion, legal, counts, places, weights, logits, values):
    """Set logits [B, M] of the moves legal [B, >= M] and values [B] of positions [B, 100]."""
    sets = np.empty((ROWS_AT_ONCE, 81, expansion.words), np.int64)
    even = np.empty((ROWS_AT_ONCE, expansion.even_planes), np.float32)
    boards = np.zeros((1, len(weights.tower) + 1, BOARD_SQUARES, WIDTH), np.uint16)
    squares = np.empty((ROWS_AT_ONCE, VALUE_CHANNELS * 81), np.float32)
    hidden = np.empty((ROWS_AT_ONCE, len(weights.last)), np.float32)
    for first in range(0, len(positions), ROWS_AT_ONCE):
        behind = min(first + ROWS_AT_ONCE, len(positions))
        rows = behind - first
        write_sparse_planes(positions[first:behind], expansion, sets[:rows], even[:rows])
        tower_forward(
            sets[:rows],
            even[:rows],
            legal[first:behind],
            counts[first:behind],
            places,
            weights.stem,
            weights.stem_bias,
            weights.tower,
            weights.tower_biases,
            weights.heads,
            weights.heads_bias,
            boards,
            logits[first:behind],
            squares[:rows],
        )
        for row in range(rows):
            hidden[row] = weights.hidden_bias
        add_product(squares[:rows], weights.hidden, hidden[:rows])
        for row in range(rows):
            values[first + row] = value_of(hidden[row], weights)


@kernel
def value_of(hidden, weights):
    """The value that follows from what goes into the last layer's ReLU [H]."""
    total = weights.last_bias[0]
    for unit in range(len(hidden)):
        if not hidden[unit] <= _ZERO:
            total += hidden[unit] * weights.last[unit]
    return np.tanh(np.float64(total))
