"""Frozen past selves to play against: a ring of weights, one of them the opponent at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.config_schema import Config
from keisei.core.ppo_agent import PPOAgent

_POINTS_A_GAME = 8.0
"""Of Elo, for a game that went against all expectation."""
_MOST_POINTS = 100.0
"""Of Elo, for all games of one rollout."""


class OpponentPool:
    """The newest `opponent_ring` snapshots, taken every `opponent_interval` updates.

    All games against a past self meet the same one until the next snapshot is taken; then another
    is drawn. Only its moves come from it, so games need not begin anew.

    With `by_rating`, learner and snapshots have ratings that the results of their games move, and
    the draw prefers equals: a snapshot that scores p has the weight p (1 - p). A new snapshot
    begins with the learner's rating.
    """

    def __init__(self, config: Config, learner: PPOAgent, *, by_rating: bool = False) -> None:
        self._config = config.games
        self._learner = learner
        self._by_rating = by_rating
        self._random = np.random.default_rng([config.seed, 1])
        self._ring: list[dict[str, Tensor]] = []
        self._ratings: list[float] = []
        self._learner_rating = 0.0
        self._chosen = 0
        self.version = 0
        """Changes with the opponent."""
        self.opponent = learner.copy_for_playing()
        self._take_snapshot()

    def after_update(self, updates: int) -> None:
        """Take a snapshot and draw another opponent, when it is time."""
        if updates % self._config.opponent_interval == 0:
            self._take_snapshot()

    def note_results(self, points: float, games: int) -> None:
        """Count games that the learner played against the opponent, a draw as half a point."""
        expected = games * self._expected_scores()[self._chosen]
        gain = float(np.clip(_POINTS_A_GAME * (points - expected), -_MOST_POINTS, _MOST_POINTS))
        self._learner_rating += gain / 2
        self._ratings[self._chosen] -= gain / 2

    def _expected_scores(self) -> NDArray[np.float64]:
        """[S] float64: the learner's share of the points against each snapshot, by the ratings."""
        behind = np.array(self._ratings) - self._learner_rating
        return np.asarray(1 / (1 + 10 ** (behind / 400)))

    def _take_snapshot(self) -> None:
        weights = self._learner.model.state_dict()
        self._ring.append({name: tensor.cpu().clone() for name, tensor in weights.items()})
        self._ratings.append(self._learner_rating)
        del self._ring[: -self._config.opponent_ring]
        del self._ratings[: -self._config.opponent_ring]
        self._choose(self._draw())

    def _draw(self) -> int:
        """The number of a snapshot."""
        if not self._by_rating:
            return int(self._random.integers(len(self._ring)))
        scores = self._expected_scores()
        weights = scores * (1 - scores)
        return int(self._random.choice(len(weights), p=weights / weights.sum()))

    def _choose(self, index: int) -> None:
        self._chosen = index
        self.version += 1
        self.opponent.model.load_state_dict(self._ring[index])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything, as tensors and JSON."""
        tensors = {
            f"{number}.{name}": tensor
            for number, weights in enumerate(self._ring)
            for name, tensor in weights.items()
        }
        return tensors, {
            "snapshots": len(self._ring),
            "chosen": self._chosen,
            "ratings": self._ratings.copy(),
            "learner_rating": self._learner_rating,
            "random": self._random.bit_generator.state,
        }

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from what `state` gave."""
        names = self._learner.model.state_dict()
        self._ring = [
            {name: torch.as_tensor(tensors[f"{number}.{name}"]) for name in names}
            for number in range(state["snapshots"])
        ]
        # Older checkpoints have no ratings: all are then thought equal.
        self._ratings = list(state.get("ratings", [0.0] * state["snapshots"]))
        self._learner_rating = state.get("learner_rating", 0.0)
        self._random.bit_generator.state = state["random"]
        self._choose(state["chosen"])
