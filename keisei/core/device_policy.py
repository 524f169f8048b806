"""`DevicePolicy`: a network's answers as whole functions on its device, compiled on a GPU.

From compact positions, sets of squares and packed masks to moves and losses nothing leaves the
device and no shape depends on the data, so that a GPU always has the next thing to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from keisei.core.device_rollout import DeviceRollout, flat
from keisei.core.masked_policy import (
    PLANE_WORDS,
    choose_planes,
    gumbel_noise,
    measure_planes,
)
from keisei.core.packed_masks import MASK_BYTES
from keisei.core.ppo_agent import PPOAgent
from keisei.core.ppo_loss import ppo_losses


class PlayedPlanes(NamedTuple):
    """What a network says of B positions, on its device."""

    planes: Tensor
    log_probs: Tensor
    values: Tensor


class DeviceSteps(NamedTuple):
    """What the loss needs to know of B steps."""

    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    lags: Tensor


class DevicePolicy:
    """Playing and learning by the network of `agent`, whose weights it shares."""

    def __init__(self, agent: PPOAgent) -> None:
        self._agent = agent
        self._plane_words = PLANE_WORDS.to(agent.device)
        self._choose = self._compiled(self._choose_plainly)
        self._losses = self._compiled(self._losses_plainly)

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if not self._agent.compiles:
            return function
        # Inductor tells of an optimization that it leaves out, in the middle of the display.
        warnings.filterwarnings("ignore", message=r"\s*Online softmax is disabled")
        compiled: Callable[..., Any] = torch.compile(function, dynamic=False, fullgraph=True)
        return compiled

    @torch.no_grad()
    def choose(
        self, positions: Tensor, sets: Tensor, masks: Tensor, words: Tensor, temperature: float
    ) -> PlayedPlanes:
        """Sample a move for each of B positions by words [B]; see `gumbel_noise`.

        sets: what the features say of the positions, see `FeatureSet.expand`.
        """
        with self._agent.autocast():
            return PlayedPlanes(
                *self._choose(positions, sets, masks, words, self._plane_words, temperature)
            )

    def _choose_plainly(
        self,
        positions: Tensor,
        sets: Tensor,
        masks: Tensor,
        words: Tensor,
        plane_words: Tensor,
        temperature: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits, values = self._agent.model(positions, sets)
        noise = gumbel_noise(words, plane_words)
        return *choose_planes(logits, masks, noise, temperature), values

    def values(self, positions: Tensor, sets: Tensor) -> Tensor:
        """[B] value of each position for its mover.

        By the function that chooses moves, which is compiled for this number of positions already:
        to compile another would make the start longer.
        """
        masks = torch.zeros(len(positions), MASK_BYTES, dtype=torch.uint8, device=positions.device)
        words = torch.zeros(len(positions), dtype=torch.int64, device=positions.device)
        return self.choose(positions, sets, masks, words, temperature=1.0).values

    def losses(
        self, rollout: DeviceRollout, chosen: Tensor, normalised: Tensor, entropy_weight: Tensor
    ) -> dict[str, Tensor]:
        """The objective and its parts for the steps chosen [N] int64, differentiable in "loss".

        normalised: [T, B] the advantages as they count; entropy_weight: a number on the device.
        """
        tensors = (
            rollout.positions,
            rollout.sets,
            rollout.masks,
            rollout.planes,
            rollout.log_probs,
            normalised,
            rollout.returns,
        )
        with self._agent.autocast():
            losses: dict[str, Tensor] = self._losses(
                chosen, entropy_weight, *(flat(tensor) for tensor in tensors)
            )
        return losses

    def _losses_plainly(
        self, chosen: Tensor, entropy_weight: Tensor, *tensors: Tensor
    ) -> dict[str, Tensor]:
        positions, sets, masks, planes, log_probs, advantages, returns = (
            tensor.index_select(0, chosen) for tensor in tensors
        )
        logits, values = self._agent.model(positions, sets)
        played = measure_planes(logits, masks, planes.long())
        steps = DeviceSteps(log_probs, advantages, returns, torch.zeros_like(returns))
        return ppo_losses(played, values, steps, self._agent.config, entropy_weight)
