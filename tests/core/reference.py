"""Slow, plain second opinions that the tests compare the learner with."""

from dataclasses import dataclass

import numpy as np

from keisei.shogi.policy_output_mapper import PolicyOutputMapper


@dataclass
class Column:
    """What one column of a rollout holds, T steps of one game after another.

    `players` says by name who moved at each step and `last_player` who would move next; signs
    follow from these names alone. `gains` are results for the player who moved.
    """

    players: list[int]
    gains: list[float]
    values: list[float]
    ends: list[bool]
    truncations: list[bool]
    cut_values: list[float]
    trains: list[bool]
    last_value: float
    last_player: int

    def returns(self, *, gamma, gae_lambda, bootstrap):
        """[T] the lambda-return of each step that trains, 0 elsewhere."""
        return [
            self._lambda_return(t, gamma, gae_lambda, bootstrap) if trains else 0.0
            for t, trains in enumerate(self.trains)
        ]

    def _lambda_return(self, step, gamma, gae_lambda, bootstrap):
        """Weighted mean of the k-step targets: (1 - l) l^(k-1) each, and the rest on the last."""
        targets = self._targets(step, gamma, bootstrap)
        weights = [(1 - gae_lambda) * gae_lambda**k for k in range(len(targets) - 1)]
        weights.append(gae_lambda ** (len(targets) - 1))
        return sum(weight * target for weight, target in zip(weights, targets, strict=True))

    def _targets(self, step, gamma, bootstrap):
        """The k-step targets of a step: k counts the learner's own decisions that are awaited."""
        mover, gained, targets = self.players[step], 0.0, []

        def worth(amount, player, plies):
            return gamma**plies * (amount if player == mover else -amount)

        for t in range(step, len(self.players)):
            if t > step and self.trains[t]:
                targets.append(gained + worth(self.values[t], self.players[t], t - step))
            gained += worth(self.gains[t], self.players[t], t - step)
            if self.ends[t]:
                if self.truncations[t] and bootstrap:
                    gained += worth(self.cut_values[t], 1 - self.players[t], t + 1 - step)
                return [*targets, gained]
        plies = len(self.players) - step
        return [*targets, gained + worth(self.last_value, self.last_player, plies)]


def softmax_over_legal(logits, legal):
    """[L] probabilities of the legal actions, from logits [2187], in plain float64."""
    chosen = logits.astype(np.float64)[PolicyOutputMapper.plane_indices[legal]]
    powers = np.exp(chosen - chosen.max())
    return powers / powers.sum()
