"""What an IQN pass does behind the mixed layer: preferred actions, aims, the loss and its slopes.

Letters and kinds of arrays are those of `iqn_kernels`. The mixed layer [R, L] is wide and comes as
the product leaves it, before its bias [L]; heads [A, L] and bias [A] are of `dueling_weights`.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import narrowed, sum_in_any_order, widened
from keisei.core.iqn_kernels import positive_part, rectify

_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)


@kernel(entry=True)
def best_actions(mixed, mixed_bias, heads, bias, best):
    """Fill `best` [B] with the actions whose quantiles have the highest mean.

    Behind the mixed layer all is linear, so that the mean is taken there.
    """
    states, size = len(best), mixed.shape[1]
    quantiles = len(mixed) // states
    share, sums = _ONE / np.float32(quantiles), np.empty(size, np.float32)
    for state in range(states):
        sums[:] = 0
        for row in range(state * quantiles, (state + 1) * quantiles):
            for k in range(size):
                sums[k] += positive_part(widened(mixed[row, k]) + mixed_bias[k])
        best[state], highest = 0, -np.inf
        for action in range(len(heads)):
            value = dot(sums, heads[action]) * share + bias[action]
            if value > highest:
                best[state], highest = action, value


@kernel(entry=True)
def aims_of_actions(mixed, mixed_bias, heads, bias, actions, returns, discounts, dones, aims):
    """Fill `aims` [B, Q]: returns, and where it is not over the discounted quantiles of an action.

    actions, returns, discounts and dones: [B].
    """
    quantiles, size = aims.shape[1], mixed.shape[1]
    rectified = np.empty(size, np.float32)
    for state in range(len(actions)):
        action, weight = actions[state], discounts[state] * (_ONE - dones[state])
        for q in range(quantiles):
            row = state * quantiles + q
            for k in range(size):
                rectified[k] = positive_part(widened(mixed[row, k]) + mixed_bias[k])
            quantile = dot(rectified, heads[action]) + bias[action]
            aims[state, q] = returns[state] + weight * quantile


@kernel(entry=True)
def loss_and_slopes(mixed, mixed_bias, dueling, actions, taus, aims, of_dueling, of_heads, of_bias):
    """The loss; its gradient by the mixed layer, before its bias, replaces that layer.

    dueling: heads and bias, with room for their gradient in of_dueling; filled are of_heads, the
    gradient of weight [A + 1, L] and bias of the heads, and of_bias [L]. taus and aims: [B, Q].
    One call for all, as every call from Python costs some microseconds.
    """
    predicted, slopes = np.empty_like(aims), np.empty_like(aims)
    rectify(mixed, mixed_bias)
    quantiles_of_actions(mixed, *dueling, actions, predicted)
    loss = quantile_huber_gradient(predicted, taus, aims, slopes)
    heads_backward(slopes, mixed, dueling[0], actions, *of_dueling, of_bias)
    dueling_gradient(*of_dueling, *of_heads)
    return loss


@kernel
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


@kernel
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


@kernel
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


@kernel
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
