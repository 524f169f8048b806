"""Frozen past selves to play against: a ring of weights, one of them the opponent at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from keisei.config_schema import Config
from keisei.core.ppo_agent import PPOAgent


class OpponentPool:
    """The newest `opponent_ring` snapshots, taken every `opponent_interval` updates.

    All games against a past self meet the same one until the next snapshot is taken; then another
    is drawn. Only its moves come from it, so games need not begin anew.
    """

    def __init__(self, config: Config, learner: PPOAgent) -> None:
        self._config = config.games
        self._learner = learner
        self._random = np.random.default_rng([config.seed, 1])
        self._ring: list[dict[str, Tensor]] = []
        self._chosen = 0
        self.version = 0
        """Changes with the opponent."""
        self.opponent = learner.copy_for_playing()
        self._take_snapshot()

    def after_update(self, updates: int) -> None:
        """Take a snapshot and draw another opponent, when it is time."""
        if updates % self._config.opponent_interval == 0:
            self._take_snapshot()

    def _take_snapshot(self) -> None:
        weights = self._learner.model.state_dict()
        self._ring.append({name: tensor.cpu().clone() for name, tensor in weights.items()})
        del self._ring[: -self._config.opponent_ring]
        self._choose(int(self._random.integers(len(self._ring))))

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
            "random": self._random.bit_generator.state,
        }

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Continue from what `state` gave."""
        names = self._learner.model.state_dict()
        self._ring = [
            {name: torch.as_tensor(tensors[f"{number}.{name}"]) for name in names}
            for number in range(state["snapshots"])
        ]
        self._random.bit_generator.state = state["random"]
        self._choose(state["chosen"])
