"""Small networks of dense layers with ReLUs between, inside kernels: one pass forth, one back.

A network is one array of its numbers: of each layer the weight [outputs, inputs] and the bias
[outputs], in their order. `sizes` are how many numbers go into the first layer and come out of
each. What goes into all layers, and comes out of the last, lies in one array, too. All arrays are of
float32; `R` rows of a batch.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.matrix_products import add_product

_ZERO = np.float32(0)


@kernel
def _length(parts):
    total = 0
    for number in range(len(parts)):
        total += len(parts[number])
    return total


@kernel
def joined(parts):
    """The numbers of all parts in one array."""
    joined, start = np.empty(_length(parts), np.float32), 0
    for number in range(len(parts)):
        joined[start : start + len(parts[number])] = parts[number]
        start += len(parts[number])
    return joined


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
def turn_weights(network, sizes, turned):
    """Set `turned` to the network with all weights [inputs, outputs], and no biases."""
    for layer in range(len(sizes) - 1):
        weight, start = _weight(network, sizes, layer), _start(sizes, layer)
        outputs, inputs = weight.shape
        its_turned = turned[start : start + weight.size].reshape(inputs, outputs)
        for row in range(inputs):
            for column in range(outputs):
                its_turned[row, column] = weight[column, row]


@kernel
def go_forth(network, turned, sizes, values, rows):
    """Set what each layer makes of what goes into it; all but the last are rectified."""
    last = len(sizes) - 2
    for layer in range(last + 1):
        said, bias = layer_of(values, sizes, layer + 1, rows), _bias(network, sizes, layer)
        for row in range(rows):
            said[row] = bias
        start, inputs, outputs = _start(sizes, layer), sizes[layer], sizes[layer + 1]
        weight = turned[start : start + inputs * outputs].reshape(inputs, outputs)
        add_product(layer_of(values, sizes, layer, rows), weight, said)
        if layer < last:
            _rectify(said)


@kernel
def _rectify(said):
    for row in range(said.shape[0]):
        for column in range(said.shape[1]):
            value = said[row, column]
            said[row, column] = _ZERO if value <= _ZERO else value  # what is no number stays so


@kernel
def go_back(network, sizes, values, slopes, rows, gradient):
    """Set the gradient of all that is below the last bias, by the slopes of what was said last."""
    for layer in range(len(sizes) - 2, -1, -1):
        known, inputs = layer_of(slopes, sizes, layer + 1, rows), layer_of(values, sizes, layer, rows)
        of_weight = _weight(gradient, sizes, layer)
        of_weight[:] = 0
        add_product(known.T, inputs, of_weight)
        if layer:
            below = layer_of(slopes, sizes, layer, rows)
            below[:] = 0
            add_product(known, _weight(network, sizes, layer), below)
            _rectify_slopes(below, inputs, _bias(gradient, sizes, layer - 1))


@kernel
def _rectify_slopes(gradient, rectified, of_bias):
    """Cut the gradient [R, L] of a layer where what was rectified [R, L] is 0; of_bias: [L] its sum.

    What is not a number passes, as it must be seen in the gradient's norm.
    """
    of_bias[:] = 0
    for row in range(len(gradient)):
        slopes, values = gradient[row], rectified[row]
        for k in range(len(of_bias)):
            slope = _ZERO if values[k] <= _ZERO else slopes[k]
            slopes[k] = slope
            of_bias[k] += slope
