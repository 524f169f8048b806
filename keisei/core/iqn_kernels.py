"""The parts of an IQN pass up to the mixed layer that are no matrix product, and their gradients.

`B` states, `Q` quantiles of each, rows `R` = B * Q, layers of size `L`, `A` actions. Arrays called
wide are float32, or bfloat16 as uint16 (see `float_bits`); all others are float32. Each kernel goes
once through memory, where single operations would go once each.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import narrowed, widened
from keisei.core.gaussian_noise import fill_with_noise

_ZERO, _ONE = np.float32(0), np.float32(1)


@kernel(entry=True)
def noisy_weights(seeds, mixed, heads, noises, out_mixed, room, dueling):
    """Fill the mixed layer and the dueling one of the heads, with the noise of two seeds.

    mixed and heads: weight, bias and the sigma of each; noises: of both, filled. Weight and bias
    are also out_mixed, `room` for the heads with noise, and dueling.
    """
    noisy_layer(seeds[0], *mixed, noises[0], *out_mixed)
    noisy_layer(seeds[1], *heads, noises[1], *room)
    dueling_weights(*room, *dueling)


@kernel
def noisy_layer(seed, weight, bias, weight_sigma, bias_sigma, noise, out_weight, out_bias):
    """Weight + sigma * noise, with the noise of a seed: of the weights first, then of the biases.

    noise: [outputs * inputs + outputs], filled; out_weight: [outputs, inputs] wide.
    """
    fill_with_noise(seed, noise)
    outputs, inputs = weight.shape
    for row in range(outputs):
        its_noise = noise[row * inputs : (row + 1) * inputs]
        for k in range(inputs):
            value = weight[row, k] + weight_sigma[row, k] * its_noise[k]
            out_weight[row, k] = narrowed(value, out_weight[row, k])
    for row in range(outputs):
        out_bias[row] = bias[row] + bias_sigma[row] * noise[outputs * inputs + row]


@kernel
def dueling_weights(weight, bias, out_weight, out_bias):
    """Heads [A + 1, L], of advantages and the value, as one layer [A, L] of what actions return."""
    actions, size = out_weight.shape
    share = _ONE / np.float32(actions)
    out_weight[:] = weight[:actions]
    out_bias[:] = bias[:actions]
    for k in range(size):
        mean = _ZERO
        for action in range(actions):
            mean += weight[action, k] * share
        for action in range(actions):
            out_weight[action, k] += weight[actions, k] - mean
    out_bias += bias[actions] - out_bias.sum() * share


@kernel(entry=True)
def cosines_of(taus, cosines):
    """cos(pi i tau) for i from 1, by the recurrence of Chebyshev; cosines: [C, R] wide, taus: [R].

    In float64, as an error grows with the square of i; taus lie side by side in a vector.
    """
    before, now, twice = np.ones((3, len(taus)))
    for row in range(len(taus)):
        now[row] = math.cos(math.pi * taus[row])
        twice[row] = 2 * now[row]
    for i in range(len(cosines)):
        for row in range(len(taus)):
            cosines[i, row] = narrowed(np.float32(now[row]), cosines[i, row])
            before[row], now[row] = now[row], twice[row] * now[row] - before[row]


@kernel(entry=True)
def rectify(values, bias):
    """Add the bias [L] and cut off below 0; values: [R, L] wide."""
    rows, size = values.shape
    for row in range(rows):
        for k in range(size):
            value = positive_part(widened(values[row, k]) + bias[k])
            values[row, k] = narrowed(value, values[row, k])


@kernel
def positive_part(value):
    """0 below 0; what is not a number stays one, as it must be seen in the gradient's norm."""
    return _ZERO if value < _ZERO else value


@kernel(entry=True)
def rectify_and_multiply(embedded, bias, seen, product):
    """Rectify the embedded taus, and multiply what is seen by them."""
    rectify(embedded, bias)
    multiply_rows(seen, embedded, product)


@kernel
def multiply_rows(seen, embedded, product):
    """Product [R, L] of what is seen [B, L] and embedded taus: [R, L], or [Q, L] for all states."""
    rows, size = product.shape
    quantiles = rows // len(seen)
    for row in range(rows):
        its_state, its_taus = row // quantiles, row % len(embedded)
        for k in range(size):
            value = widened(seen[its_state, k]) * widened(embedded[its_taus, k])
            product[row, k] = narrowed(value, product[row, k])


@kernel(entry=True)
def product_backward(gradient, seen, embedded, of_seen_bias, of_embedded_bias):
    """From the gradient [R, L] wide by the product to those by its factors before they were cut.

    That by the embedded taus replaces `gradient`, that by what is seen replaces `seen`. seen:
    [B, L] and embedded: [R, L] wide, rectified; the biases: [L].
    """
    states, size = seen.shape
    quantiles = len(gradient) // states
    sums = np.empty(size, np.float32)
    of_seen_bias[:], of_embedded_bias[:] = 0, 0
    for state in range(states):
        sums[:] = 0
        for row in range(state * quantiles, (state + 1) * quantiles):
            for k in range(size):
                slope, factor = widened(gradient[row, k]), widened(embedded[row, k])
                sums[k] += slope * factor
                passed = slope * widened(seen[state, k]) if factor > 0 else _ZERO
                of_embedded_bias[k] += passed
                gradient[row, k] = narrowed(passed, gradient[row, k])
        for k in range(size):
            passed = sums[k] if widened(seen[state, k]) > 0 else _ZERO
            of_seen_bias[k] += passed
            seen[state, k] = narrowed(passed, seen[state, k])
