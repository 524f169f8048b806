"""Negamax GAE: advantages where the next position belongs to the opponent.

A value is the mover's, so it changes sign across a ply:

    delta[t] = reward[t] - gamma * value[t+1] - value[t]
    advantage[t] = delta[t] - gamma * lambda * advantage[t+1]

A step that the learner did not play (a frozen opponent's) has no value of its own: the learner's
next value passes through it, with both signs and both discounts, and it gets no advantage.
"""

from __future__ import annotations

from keisei.compiled.kernels import kernel


@kernel(entry=True)
def negamax_advantages(
    rewards,
    values,
    ends,
    truncations,
    cut_values,
    trains,
    lengths,
    last_values,
    gamma,
    gae_lambda,
    bootstrap,
    advantages,
    returns,
):
    """Fill advantages and returns, [T, B] like the arguments; lengths and last_values [B].

    A game has `lengths` steps, and `last_values` is of the position behind them; steps beyond get
    no advantage.

    bootstrap: whether a cut game is worth its last position's value (`cut_values`, of the player
    who would have moved) or a draw.
    """
    steps, games = rewards.shape
    for game in range(games):
        next_value = last_values[game]  # of the player to move after step t
        next_advantage = 0.0
        for t in range(lengths[game], steps):
            advantages[t, game] = 0.0
            returns[t, game] = 0.0
        for t in range(lengths[game] - 1, -1, -1):
            if ends[t, game]:
                next_value = cut_values[t, game] if bootstrap and truncations[t, game] else 0.0
                next_advantage = 0.0
            target = rewards[t, game] - gamma * next_value
            if trains[t, game]:
                delta = target - values[t, game]
                next_advantage = delta - gamma * gae_lambda * next_advantage
                next_value = values[t, game]
                advantages[t, game] = next_advantage
                returns[t, game] = next_advantage + next_value
            else:
                next_advantage = -gamma * next_advantage
                next_value = target
                advantages[t, game] = 0.0
                returns[t, game] = 0.0
