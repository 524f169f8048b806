"""Clipping, Adam and a target that follows slowly, in one pass over the weights of a network.

Kingma and Ba, Adam (2015). Weights, moments and target are tuples of arrays, one for each parameter
and flat; the gradient is one array over all of them, in the same order.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.float_bits import sum_in_any_order


@kernel(entry=True)
def norm_of(gradient):
    """The length of a vector of float32; not finite if one of its numbers is not."""
    total = 0.0
    for k in range(len(gradient)):
        total = sum_in_any_order(total, np.float64(gradient[k]) * gradient[k])
    return math.sqrt(total)


@kernel(entry=True)
def adam_step(
    weights, firsts, seconds, targets, gradient, scale, count, rate, beta1, beta2, epsilon, tau
):  # fmt: skip
    """Move the weights by the gradient times `scale`, then the targets by the share tau to them.

    firsts and seconds: the moments; count: of this step, the first of which is 1.
    """
    scale, keep1, keep2 = np.float32(scale), np.float32(beta1), np.float32(beta2)
    new1, new2 = np.float32(1 - beta1), np.float32(1 - beta2)
    step = np.float32(rate / (1 - beta1**count))
    root = np.float32(1 / math.sqrt(1 - beta2**count))
    epsilon, tau = np.float32(epsilon), np.float32(tau)
    offset = 0
    for number in range(len(weights)):
        weight, first, second = weights[number], firsts[number], seconds[number]
        target, slopes = targets[number], gradient[offset : offset + len(weight)]
        for k in range(len(weight)):
            slope = slopes[k] * scale
            first[k] = keep1 * first[k] + new1 * slope
            second[k] = keep2 * second[k] + new2 * slope * slope
            weight[k] -= step * first[k] / (np.sqrt(second[k]) * root + epsilon)
            target[k] += tau * (weight[k] - target[k])
        offset += len(weight)
