"""The parts of an IQN pass that are no matrix product, forwards and backwards.

`B` states, `Q` quantiles of each, rows `R` = B * Q, layers of size `L`, `A` actions. Arrays called
wide are float32, or bfloat16 as uint16 (see `float_bits`); all others are float32. Each kernel goes
once through memory, where single operations would go once each.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import narrowed, sum_in_any_order, widened
from keisei.core.gaussian_noise import fill_with_noise

_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)


@kernel(entry=True)
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


@kernel(entry=True)
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
def dueling_gradient(of_weight, of_bias, out_weight, out_bias):
    """The gradient of the heads [A + 1, L], given that of `dueling_weights` [A, L]."""
    actions, size = of_weight.shape
    share = _ONE / np.float32(actions)
    for k in range(size):
        total = _ZERO
        for action in range(actions):
            total += of_weight[action, k]
        for action in range(actions):
            out_weight[action, k] = of_weight[action, k] - total * share
        out_weight[actions, k] = total
    total = of_bias.sum()
    out_bias[:actions] = of_bias - total * share
    out_bias[actions] = total


@kernel(entry=True)
def cosines_of(taus, cosines):
    """cos(pi i tau) for i from 1, by the recurrence of Chebyshev; cosines: [R, C] wide, taus: [R].

    In float64, as an error grows with the square of i; taus lie side by side in a vector.
    """
    before, now, twice = np.ones((3, len(taus)))
    for row in range(len(taus)):
        now[row] = math.cos(math.pi * taus[row])
        twice[row] = 2 * now[row]
    for i in range(cosines.shape[1]):
        for row in range(len(taus)):
            cosines[row, i] = narrowed(np.float32(now[row]), cosines[row, i])
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
def sum_over_quantiles(mixed, bias, sums):
    """[B, L] the sum of the Q rectified rows of each state; mixed: [R, L] wide, before its bias."""
    states, size = sums.shape
    quantiles = len(mixed) // states
    sums[:] = 0
    for row in range(len(mixed)):
        state = row // quantiles
        for k in range(size):
            sums[state, k] += positive_part(widened(mixed[row, k]) + bias[k])


@kernel(entry=True)
def quantiles_of_actions(mixed, heads, bias, actions, quantiles):
    """[B, Q] the quantiles of each state's action; mixed: [R, L] wide, heads: [A, L]."""
    for state in range(len(actions)):
        action = actions[state]
        for q in range(quantiles.shape[1]):
            row = state * quantiles.shape[1] + q
            quantiles[state, q] = dot(mixed[row], heads[action]) + bias[action]


@kernel
def dot(values, weights):
    """The sum of the products of `values` [L] wide and `weights` [L]."""
    total = _ZERO
    for k in range(len(values)):
        total = sum_in_any_order(total, widened(values[k]) * weights[k])
    return total


@kernel(entry=True)
def quantile_huber_gradient(predicted, taus, targets, gradient):
    """`quantile_huber_loss`, and its gradient by what is predicted; all [B, Q]."""
    states, quantiles = predicted.shape
    share = _ONE / np.float32(states * targets.shape[1])
    loss = 0.0
    for state in range(states):
        for i in range(quantiles):
            slope = _ZERO
            for j in range(targets.shape[1]):
                error = targets[state, j] - predicted[state, i]
                size = abs(error)
                weight = _ONE - taus[state, i] if error < 0 else taus[state, i]
                steep = size > _ONE
                loss += weight * (size - _HALF if steep else _HALF * error * error)
                slope += weight * (math.copysign(_ONE, error) if steep else error)
            gradient[state, i] = -slope * share
    return loss * share


@kernel(entry=True)
def heads_backward(gradient, mixed, heads, actions, of_heads, of_head_bias, of_bias):
    """From the gradient [B, Q] by the quantiles of each state's action to that by the mixed layer.

    mixed: [R, L] wide, rectified; the gradient before it was replaces it. heads and of_heads:
    [A, L]; of_head_bias: [A]; of_bias: [L], of the mixed layer.
    """
    quantiles, size = gradient.shape[1], mixed.shape[1]
    of_heads[:], of_head_bias[:], of_bias[:] = 0, 0, 0
    for state in range(len(actions)):
        action = actions[state]
        for q in range(quantiles):
            slope, row = gradient[state, q], state * quantiles + q
            of_head_bias[action] += slope
            for k in range(size):
                value = widened(mixed[row, k])
                passed = slope * heads[action, k] if value > 0 else _ZERO
                of_heads[action, k] += slope * value
                of_bias[k] += passed
                mixed[row, k] = narrowed(passed, mixed[row, k])


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
