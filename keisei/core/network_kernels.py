"""Small networks of dense layers with ReLUs between, inside kernels: one pass forth, one back.

A network is one array of its numbers: of each layer the weight [outputs, inputs] and the bias
[outputs], in their order. `sizes` are how many numbers go into the first layer and come out of
each. What goes into all layers, and comes out of the last, lies in one array, too. All arrays are
of float32; `R` rows of a batch.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.matrix_products import add_product
from keisei.core.sparse_rows import (
    SparseRows,
    add_sparse_product,
    add_turned_sparse_product,
    count_nonzero,
    sparse_rows,
)

_ZERO = np.float32(0)


@kernel
def join(parts, joined):
    """Set `joined` to the numbers of all parts, one behind the other."""
    start = 0
    for number in range(len(parts)):
        joined[start : start + len(parts[number])] = parts[number]
        start += len(parts[number])


@kernel
def share_out(joined, parts):
    """The way back."""
    start = 0
    for number in range(len(parts)):
        parts[number][:] = joined[start : start + len(parts[number])]
        start += len(parts[number])


@kernel
def layer_of(flat, sizes, layer, rows):
    """[R, size] what goes into a layer, or out of the last: those of all lie behind each other."""
    start = rows * sizes[:layer].sum()
    return flat[start : start + rows * sizes[layer]].reshape(rows, sizes[layer])


@kernel
def sparse_if_worth_it(rows, starts, places, numbers):
    """Rows [N, inputs] as `go_forth` takes them; no numbers where too many of them are not 0.

    In the memory of [N + 1], and of [P] for as many places and numbers as are worth it.
    """
    if count_nonzero(rows) < len(numbers):
        return sparse_rows(rows, starts, places, numbers)
    return SparseRows(starts, places[:0], numbers[:0])


@kernel
def _start(sizes, layer):
    """Where the numbers of a layer begin in a network."""
    start = 0
    for below in range(layer):
        start += (sizes[below] + 1) * sizes[below + 1]
    return start


@kernel
def _weight(network, sizes, layer):
    """[outputs, inputs] of a layer."""
    start, inputs, outputs = _start(sizes, layer), sizes[layer], sizes[layer + 1]
    return network[start : start + inputs * outputs].reshape(outputs, inputs)


@kernel
def _bias(network, sizes, layer):
    """[outputs] of a layer, behind its weight."""
    behind = _start(sizes, layer + 1)
    return network[behind - sizes[layer + 1] : behind]


@kernel
def _turned_weight(turned, sizes, layer):
    """[inputs, outputs] of a layer."""
    start, inputs, outputs = _start(sizes, layer), sizes[layer], sizes[layer + 1]
    return turned[start : start + inputs * outputs].reshape(inputs, outputs)


@kernel
def turn_weights(network, sizes, turned):
    """Set `turned`, as long as the network, to its weights as [inputs, outputs]."""
    for layer in range(len(sizes) - 1):
        _turn(_weight(network, sizes, layer), _turned_weight(turned, sizes, layer))


@kernel
def _turn(matrix, turned):
    for row in range(turned.shape[0]):
        for column in range(turned.shape[1]):
            turned[row, column] = matrix[column, row]


@kernel
def go_forth(network, turned, sizes, rows, sparse, chosen, values):
    """Set what each layer makes of what goes into it; all but the last are rectified.

    It begins with the rows `chosen` [R] of `rows` [N, inputs], or of `sparse` where that has some.
    """
    count, last = len(chosen), len(sizes) - 2
    for layer in range(last + 1):
        said, bias = layer_of(values, sizes, layer + 1, count), _bias(network, sizes, layer)
        for row in range(count):
            said[row] = bias
        weight = _turned_weight(turned, sizes, layer)
        if layer or not len(sparse.numbers):
            inputs = layer_of(values, sizes, layer, count)
            if not layer:
                for row in range(count):
                    inputs[row] = rows[chosen[row]]
            add_product(inputs, weight, said)
        else:
            add_sparse_product(sparse, chosen, weight, said)
        if layer < last:
            _rectify(said)


@kernel
def _rectify(said):
    for row in range(said.shape[0]):
        for column in range(said.shape[1]):
            value = said[row, column]
            said[row, column] = _ZERO if value <= _ZERO else value  # what is no number stays so


@kernel
def go_back(network, turned, sizes, sparse, chosen, values, slopes, gradient):
    """Set the gradient of all that is below the last bias, by the slopes of what was said last.

    As of the last `go_forth`; what is in `turned` is lost.
    """
    count = len(chosen)
    for layer in range(len(sizes) - 2, -1, -1):
        known = layer_of(slopes, sizes, layer + 1, count)
        of_weight = _weight(gradient, sizes, layer)
        if layer or not len(sparse.numbers):
            inputs = layer_of(values, sizes, layer, count)
            of_weight[:] = 0
            add_product(known.T, inputs, of_weight)
        else:
            of_turned = _turned_weight(turned, sizes, layer)
            of_turned[:] = 0
            add_turned_sparse_product(sparse, chosen, known, of_turned)
            _turn(of_turned, of_weight)
        if layer:
            below = layer_of(slopes, sizes, layer, count)
            below[:] = 0
            add_product(known, _weight(network, sizes, layer), below)
            _rectify_slopes(below, inputs, _bias(gradient, sizes, layer - 1))


@kernel
def _rectify_slopes(gradient, rectified, of_bias):
    """Cut the gradient [R, L] where what was rectified [R, L] is 0; of_bias: [L] its sum.

    What is not a number passes, as it must be seen in the gradient's norm.
    """
    of_bias[:] = 0
    for row in range(len(gradient)):
        slopes, values = gradient[row], rectified[row]
        for k in range(len(of_bias)):
            slope = _ZERO if values[k] <= _ZERO else slopes[k]
            slopes[k] = slope
            of_bias[k] += slope
