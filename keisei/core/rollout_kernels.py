"""Compiled parts of PPO on flat observations: sampling, returns so far, advantages, shuffling.

Arrays are [T, B]. As in `replay_kernels`, `starts` is set where a turn does not follow the one
before it, so that a turn has a successor only if the next row is no start.
"""

from __future__ import annotations

import numpy as np

from keisei.compiled.kernels import kernel
from keisei.compiled.splitmix import STEP, mix, number_below


@kernel(entry=True)
def choose_actions(outputs, fractions, actions, log_probs):
    """Fill actions and log_probs [B] by the softmax of the logits, the first A of `outputs` [B, _].

    fractions: [B] in [0, 1), which decide.
    """
    choices = outputs.shape[1] - 1
    for index in range(len(actions)):
        logits = outputs[index, :choices]
        highest = logits.max()
        total = 0.0
        for action in range(choices):
            total += np.exp(logits[action] - highest)
        left = fractions[index] * total
        chosen = choices - 1  # where rounding leaves a rest
        for action in range(choices):
            left -= np.exp(logits[action] - highest)
            if left < 0:
                chosen = action
                break
        actions[index] = chosen
        log_probs[index] = logits[chosen] - highest - np.log(total)


@kernel(entry=True)
def returns_so_far(rewards, active, starts, gamma, returns):
    """Fill `returns` with gamma * returns[t - 1] + rewards[t], from 0 where an episode begins."""
    turns, copies = rewards.shape
    for copy in range(copies):
        total = 0.0
        for t in range(turns):
            if starts[t, copy]:
                total = 0.0
            total = gamma * total + rewards[t, copy]
            returns[t, copy] = total if active[t, copy] else 0.0


@kernel(entry=True)
def find_trainable(dones, active, starts, trains):
    """Fill which turns can be trained on: those behind which there is something known.

    The last turn of an episode that goes on beyond what is stored has no value behind it.
    """
    turns, copies = dones.shape
    for t in range(turns):
        for copy in range(copies):
            followed = t + 1 < turns and not starts[t + 1, copy]
            trains[t, copy] = active[t, copy] and (dones[t, copy] or followed)


@kernel(entry=True)
def advantages_and_returns(rewards, values, dones, trains, gamma, gae_lambda, advantages, returns):
    """Fill GAE's advantages and the returns they imply.

        delta[t] = reward[t] + gamma * value[t+1] - value[t]
        advantage[t] = delta[t] + gamma * lambda * advantage[t+1]

    Nothing is learnt from a turn that cannot be trained on, but its own value stands behind the
    turn before it.
    """
    turns, copies = rewards.shape
    for copy in range(copies):
        next_value, next_advantage = 0.0, 0.0
        for t in range(turns - 1, -1, -1):
            if dones[t, copy]:
                next_value, next_advantage = 0.0, 0.0
            if trains[t, copy]:
                delta = rewards[t, copy] + gamma * next_value - values[t, copy]
                next_advantage = delta + gamma * gae_lambda * next_advantage
            else:
                next_advantage = 0.0
            next_value = values[t, copy]
            advantages[t, copy] = next_advantage
            returns[t, copy] = next_advantage + next_value


@kernel(entry=True)
def shuffle(seed, orders):
    """Set each row of orders [E, N] to the numbers below N, in an order that the seed decides."""
    state = np.uint64(seed)
    for order in orders:
        for k in range(len(order)):
            state += STEP
            other = number_below(mix(state), k + 1)
            order[k] = order[other]
            order[other] = k
