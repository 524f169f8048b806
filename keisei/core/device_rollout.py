"""`DeviceRollout`: one rollout whose positions stay where the network is, from playing to learning.

T steps of B games. What the network sees and says lies on its device; what the games say (results,
endings) lies in memory here until the advantages are computed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from keisei.core.advantages import negamax_advantages
from keisei.core.packed_masks import MASK_BYTES
from keisei.shogi.batch import POSITION_BYTES


class DeviceRollout:
    """[T, B] steps: 388 bytes each on the device and 648 for each word of the sets, 11 here."""

    def __init__(self, steps: int, games: int, words: int, device: torch.device) -> None:
        """words: of the network's sets of squares, see `FeatureSet.words`."""
        self.steps, self.games = steps, games
        shape = (steps, games)
        self.sets = torch.zeros(*shape, 81, words, dtype=torch.int64, device=device)
        self.positions = torch.zeros(*shape, POSITION_BYTES, dtype=torch.int8, device=device)
        self.masks = torch.zeros(*shape, MASK_BYTES, dtype=torch.uint8, device=device)
        self.planes = torch.zeros(shape, dtype=torch.int16, device=device)
        self.log_probs, self.values, self.advantages, self.returns = (
            torch.zeros(shape, device=device) for _ in range(4)
        )
        self.rewards, self.cut_values = (np.zeros(shape, np.float32) for _ in range(2))
        self.ends, self.truncations, self.trains = (np.zeros(shape, np.bool_) for _ in range(3))

    def clear(self) -> None:
        """Nothing trains until it is played anew."""
        self.trains[:] = False

    def own_steps(self) -> NDArray[np.int64]:
        """The numbers (t * B + game) of the steps that train."""
        return np.flatnonzero(self.trains)

    def compute_advantages_and_returns(
        self,
        last_values: NDArray[np.float32],
        *,
        gamma: float,
        gae_lambda: float,
        cut_games: Literal["draw", "bootstrap"],
    ) -> None:
        """Negamax GAE; last_values: [B] of the positions behind the last step, for their mover."""
        advantages, returns = (np.zeros((self.steps, self.games), np.float32) for _ in range(2))
        negamax_advantages(
            self.rewards,
            self.values.cpu().numpy(),
            self.ends,
            self.truncations,
            self.cut_values,
            self.trains,
            np.full(self.games, self.steps, np.int32),
            last_values,
            gamma,
            gae_lambda,
            cut_games == "bootstrap",
            advantages,
            returns,
        )
        self.advantages.copy_(torch.from_numpy(advantages))
        self.returns.copy_(torch.from_numpy(returns))


def flat(tensor: Tensor) -> Tensor:
    """[T, B, ...] as [T * B, ...], the same memory."""
    return tensor.flatten(0, 1)
