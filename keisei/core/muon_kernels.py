"""Muon's step of one matrix on a CPU, in one call; see `muon`.

Torch takes dozens of calls for it, while all other learners wait. All arrays are of float32.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.matrix_products import add_product

MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial that moves all singular values towards 1, soonest from small ones."""
LEAST_NORM = 1e-7

_MOMENTUM = np.float32(MOMENTUM)
_LINEAR, _CUBIC, _QUINTIC = (np.float32(coefficient) for coefficient in COEFFICIENTS)
_ONE = np.float32(1)


@kernel(entry=True)
def muon_step(weight, momentum, gradient, rate, decay, size):
    """Move a weight [R, C] by `rate`, times `size` in each direction, and shrink it by `decay`."""
    rows, columns = weight.shape
    direction = np.empty((rows, columns), np.float32)
    turned = np.empty((columns, rows), np.float32)
    for i in range(rows):
        for j in range(columns):
            momentum[i, j] = momentum[i, j] * _MOMENTUM + gradient[i, j]
            direction[i, j] = gradient[i, j] + momentum[i, j] * _MOMENTUM
            turned[j, i] = direction[i, j]
    wide = rows <= columns
    square = _product(direction, turned) if wide else _product(turned, direction)
    norm = _norm_of(square)
    _scale(square, _ONE / norm / norm)
    factor = _factor_of(square)
    _scale(factor, np.float32(-rate * size) / norm)
    _scale(weight, np.float32(1 - rate * decay))
    if wide:
        add_product(factor, direction, weight)
    else:
        add_product(direction, factor, weight)


@kernel
def _norm_of(square):
    """Of the matrix X, given X X'; not 0."""
    total = 0.0
    for i in range(len(square)):
        total += square[i, i]
    return np.float32(max(math.sqrt(total), LEAST_NORM))


@kernel
def _factor_of(square):
    """[S, S] what turns X, given X X' [S, S], which is used up."""
    factor = np.eye(len(square), dtype=np.float32)
    for _ in range(ITERATIONS):
        polynomial = np.empty_like(square)
        higher = np.empty_like(square)
        for i in range(len(square)):
            for j in range(len(square)):
                polynomial[i, j] = _CUBIC * square[i, j]
                higher[i, j] = _QUINTIC * square[i, j]
            polynomial[i, i] += _LINEAR
        add_product(higher, square, polynomial)
        factor = _product(polynomial, factor)
        square = _product(_product(polynomial, square), polynomial)
    return factor


@kernel
def _product(left, right):
    total = np.zeros((left.shape[0], right.shape[1]), np.float32)
    add_product(left, right, total)
    return total


@kernel
def _scale(matrix, factor):
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] *= factor
