"""The parts of PPO's gradient that are no matrix product; see `ppo_gradients`.

`R` turns of a minibatch, `A` actions, layers of size `L`; all arrays of numbers are float32.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel

_ZERO, _ONE = np.float32(0), np.float32(1)


@kernel(entry=True)
def clipped_gradient(
    outputs, turns, actions, log_probs, advantages, returns,
    clip, entropy_weight, value_weight, gradient, of_bias, sums,
):  # fmt: skip
    """`clipped_losses` and their gradient by what the network says.

    outputs: [R, A + 1], of the turns with the numbers `turns` [R]; what was done and what came of
    it is [N] over all turns of the lesson. gradient: [R, A + 1], filled; of_bias: [A + 1] its sum.
    To sums [5] the losses are added: the whole, policy, value, entropy, and the share clipped.
    """
    rows, choices = len(turns), outputs.shape[1] - 1
    clip, share = np.float32(clip), _ONE / np.float32(rows)
    entropy_weight, value_weight = np.float32(entropy_weight), np.float32(value_weight)
    gain, value_loss, entropies, clipped = 0.0, 0.0, 0.0, 0
    said = np.empty(choices, np.float32)  # log-probabilities
    of_bias[:] = 0
    for row in range(rows):
        turn, logits, slopes = turns[row], outputs[row], gradient[row]
        entropy = _fill_log_probs(logits, said)
        ratio = np.exp(said[actions[turn]] - log_probs[turn])
        slope, its_gain, beyond = _gain_slope(ratio, advantages[turn], clip)
        gain, entropies, clipped = gain + its_gain, entropies + entropy, clipped + beyond
        for action in range(choices):
            probability = np.exp(said[action])
            taken = _ONE if action == actions[turn] else _ZERO
            of_entropy = -probability * (said[action] + entropy)
            slopes[action] = share * (slope * (probability - taken) - entropy_weight * of_entropy)
        error = logits[choices] - returns[turn]
        value_loss += error * error
        slopes[choices] = share * value_weight * np.float32(2) * error
        for output in range(choices + 1):
            of_bias[output] += slopes[output]
    sums[0] += (value_weight * value_loss - gain - entropy_weight * entropies) / rows
    sums[1] -= gain / rows
    sums[2] += value_loss / rows
    sums[3] += entropies / rows
    sums[4] += clipped / rows


@kernel
def _fill_log_probs(logits, said):
    """Fill `said` [A] with the log of the softmax of the first A logits; its entropy."""
    choices = len(said)
    highest = logits[0]
    for action in range(1, choices):
        highest = max(highest, logits[action])
    total = _ZERO
    for action in range(choices):
        said[action] = logits[action] - highest
        total += np.exp(said[action])
    normalizer, entropy = np.log(total), _ZERO
    for action in range(choices):
        said[action] -= normalizer
        entropy -= np.exp(said[action]) * said[action]
    return entropy


@kernel
def _gain_slope(ratio, advantage, clip):
    """Of min(ratio * advantage, clipped ratio * advantage): its slope by the log-probability, it
    itself, and whether the ratio is beyond the clip.

    A ratio that has gone too far in the advantage's direction is worth no more, and has no slope.
    """
    beyond = abs(ratio - _ONE) > clip
    gain = ratio * advantage
    bound = min(max(ratio, _ONE - clip), _ONE + clip) * advantage
    if bound < gain:
        return _ZERO, bound, beyond
    return gain, gain, beyond


@kernel(entry=True)
def rectified_backward(gradient, rectified, of_bias):
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


@kernel(entry=True)
def adam_move(weights, firsts, seconds, gradient, scale, count, rate, beta1, beta2, epsilon):
    """One step of Adam by the gradient times `scale`, in one pass (Kingma and Ba, 2015).

    weights, firsts and seconds, the moments: tuples of flat arrays, one for each parameter;
    gradient: one over all of them, in the same order. count: of this step, the first is 1.
    """
    scale, keep1, keep2 = np.float32(scale), np.float32(beta1), np.float32(beta2)
    new1, new2 = np.float32(1 - beta1), np.float32(1 - beta2)
    step = np.float32(rate / (1 - beta1**count))
    root, epsilon = np.float32(1 / math.sqrt(1 - beta2**count)), np.float32(epsilon)
    start = 0
    for number in range(len(weights)):
        weight, first, second = weights[number], firsts[number], seconds[number]
        slopes = gradient[start : start + len(weight)]
        for k in range(len(weight)):
            slope = slopes[k] * scale
            first[k] = keep1 * first[k] + new1 * slope
            second[k] = keep2 * second[k] + new2 * slope * slope
            weight[k] -= step * first[k] / (np.sqrt(second[k]) * root + epsilon)
        start += len(weight)
