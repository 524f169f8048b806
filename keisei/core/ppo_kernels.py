"""A whole PPO lesson of a small network on a CPU, in one call and without autograd.

While it goes on, other threads have the interpreter. `Turns.lesson`, `Turns.seen_anew` and
`clipped_losses` say the same in the language of torch. `T` turns in `B` copies, `N` of them to
train on, `R` in a minibatch, `A` actions; networks as in `network_kernels`. Numbers are float32.
"""

from __future__ import annotations

import math

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.core.network_kernels import (
    go_back,
    go_forth,
    join,
    layer_of,
    share_out,
    sparse_if_worth_it,
    turn_weights,
)
from keisei.core.rollout_kernels import advantages_and_returns

_ZERO, _ONE = np.float32(0), np.float32(1)
ROWS_AT_ONCE = np.int64(256)
"""What layers say of so many states stays in a processor's cache."""


@kernel(entry=True)
def learn_turns(
    parameters, firsts, seconds, sizes,
    states, actions, log_probs, values, rewards, dones, trains,
    anew, gamma, gae_lambda, order, ends,
    clip, entropy_weight, value_weight, max_norm, count, rate, beta1, beta2, epsilon, losses,
    networks, of_turns, numbers, starts, places, through, slopes,
):  # fmt: skip
    """Take a step of Adam by each minibatch of turns; the norm of the last gradient.

    parameters, firsts and seconds, the moments: a flat array for each, in their order. Where a norm
    is not finite they stay as they were, and it is returned at once. states: [T, B, inputs], all
    else of the turns [T, B]; anew: whether older weights played them. order: the numbers of all
    minibatches' turns among the N that train, one behind the other; ends: where each ends. count:
    of the steps before. losses: [5] set to the means over the steps, as `_clipped_gradient` has it.
    Behind it is memory to work in, see `LessonMemory`.
    """
    network, first, second, gradient, turned = networks
    advantages, returns, said, known = of_turns
    join(parameters, network)
    join(firsts, first)
    join(seconds, second)
    flat = states.reshape(actions.size, states.shape[2])
    sparse = sparse_if_worth_it(flat, starts, places, numbers)
    if anew:
        its_actions, its_said, its_known = actions.reshape(-1), said.reshape(-1), known.reshape(-1)
        _ask(network, turned, sizes, flat, sparse, through, its_actions, its_said, its_known)
    else:
        said, known = log_probs, values
    advantages_and_returns(rewards, known, dones, trains, gamma, gae_lambda, advantages, returns)
    kept = np.flatnonzero(trains)
    _normalize(advantages.reshape(-1), kept)
    if anew:
        _weigh(advantages.reshape(-1), said.reshape(-1), log_probs.reshape(-1))
    last, begin, norm = len(sizes) - 1, 0, 0.0
    losses[:] = 0
    for step in range(len(ends)):
        turns = kept[order[begin : ends[step]]]
        begin, rows = ends[step], len(turns)
        turn_weights(network, sizes, turned)
        go_forth(network, turned, sizes, flat, sparse, turns, through)
        _clipped_gradient(
            layer_of(through, sizes, last, rows), turns, actions.reshape(-1), said.reshape(-1),
            advantages.reshape(-1), returns.reshape(-1), clip, entropy_weight, value_weight,
            layer_of(slopes, sizes, last, rows), gradient[len(gradient) - sizes[last] :], losses,
        )  # fmt: skip
        go_back(network, turned, sizes, sparse, turns, through, slopes, gradient)
        norm = _norm(gradient)
        if not math.isfinite(norm):
            return norm
        scale, number = min(1.0, max_norm / (norm + 1e-6)), count + step + 1
        _adam_move(network, first, second, gradient, scale, number, rate, beta1, beta2, epsilon)
    share_out(network, parameters)
    share_out(first, firsts)
    share_out(second, seconds)
    losses /= len(ends)
    return norm


@kernel
def _ask(network, turned, sizes, states, sparse, through, actions, log_probs, values):
    """Set [N] the log-probabilities of actions and the values that a network says of the states."""
    most, last = min(len(states), ROWS_AT_ONCE), len(sizes) - 1
    said = np.empty(sizes[last] - 1, np.float32)
    turn_weights(network, sizes, turned)
    for first in range(0, len(states), most):
        chosen = np.arange(first, min(first + most, len(states)))
        go_forth(network, turned, sizes, states, sparse, chosen, through)
        outputs = layer_of(through, sizes, last, len(chosen))
        for row in range(len(chosen)):
            turn = chosen[row]
            _fill_log_probs(outputs[row], said)
            log_probs[turn], values[turn] = said[actions[turn]], outputs[row, len(said)]


@kernel
def _normalize(advantages, kept):
    """Give those that are kept a mean of 0 and a deviation of 1."""
    total, squares = 0.0, 0.0
    for number in kept:
        total += advantages[number]
    mean = total / max(len(kept), 1)
    for number in kept:
        squares += (advantages[number] - mean) ** 2
    deviation = math.sqrt(squares / max(len(kept), 1)) + 1e-8
    for number in kept:
        advantages[number] = (advantages[number] - mean) / deviation


@kernel
def _weigh(advantages, log_probs, before):
    """A turn whose action has become less probable counts less: by the ratio of both."""
    for number in range(len(advantages)):
        advantages[number] *= min(np.exp(log_probs[number] - before[number]), _ONE)


@kernel
def _norm(gradient):
    """The length of a vector; not finite if one of its numbers is not.

    Eight sums at once, in an order that no compiler changes.
    """
    sums = np.zeros(8)
    whole = len(gradient) - len(gradient) % 8
    for first in range(0, whole, 8):
        for k in range(8):
            sums[k] += np.float64(gradient[first + k]) * gradient[first + k]
    for k in range(whole, len(gradient)):
        sums[0] += np.float64(gradient[k]) * gradient[k]
    return math.sqrt(sums.sum())


@kernel
def _clipped_gradient(
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


@kernel
def _adam_move(weights, firsts, seconds, gradient, scale, count, rate, beta1, beta2, epsilon):
    """One step of Adam by the gradient times `scale`, in one pass (Kingma and Ba, 2015).

    firsts and seconds: the moments. count: of this step, the first is 1.
    """
    scale, keep1, keep2 = np.float32(scale), np.float32(beta1), np.float32(beta2)
    new1, new2 = np.float32(1 - beta1), np.float32(1 - beta2)
    step = np.float32(rate / (1 - beta1**count))
    root, epsilon = np.float32(1 / math.sqrt(1 - beta2**count)), np.float32(epsilon)
    for k in range(len(weights)):
        slope = gradient[k] * scale
        firsts[k] = keep1 * firsts[k] + new1 * slope
        seconds[k] = keep2 * seconds[k] + new2 * slope * slope
        weights[k] -= step * firsts[k] / (np.sqrt(seconds[k]) * root + epsilon)
