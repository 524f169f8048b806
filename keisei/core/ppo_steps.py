"""`PPOSteps`: the gradient steps of a PPO lesson on a CPU, see `ppo_gradients`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from keisei.core.adam_kernel import norm_of
from keisei.core.adam_memory import AdamMemory
from keisei.core.ppo_gradients import LOSSES, PPOGradients
from keisei.core.ppo_kernels import adam_move
from keisei.core.stacked_modules import NonFiniteGradientError


class PPOSteps:
    """Steps of one network with the minibatches of one lesson.

    They work on the memory of weights and moments as they are when this is made, and go on with the
    optimizer's own moments.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        optimizer: torch.optim.Adam,
        gradients: PPOGradients,
        *,
        max_norm: float,
    ) -> None:
        self._memory = AdamMemory(parameters, optimizer)
        self._gradients, self._max_norm = gradients, max_norm
        self._sums, self._taken = np.zeros(len(LOSSES)), 0

    def take(self, turns: Tensor) -> None:
        """Take one step, by the turns with these numbers.

        NonFiniteGradientError if the gradient's norm is not finite: this step changed nothing.
        """
        self._gradients.add_losses(turns, self._sums)
        norm = norm_of(self._gradients.gradient)
        if not math.isfinite(norm):
            raise NonFiniteGradientError(f"the norm of the gradient is {norm}")
        self._move(min(1.0, self._max_norm / (norm + 1e-6)))
        self._taken += 1

    def _move(self, scale: float) -> None:
        """Take Adam's step with the gradient times `scale`."""
        memory = self._memory
        count, arrays = memory.count_step(), (memory.weights, *memory.moments)
        adam_move(*arrays, self._gradients.gradient, scale, count, *memory.settings)

    def means(self) -> dict[str, float]:
        """Of the losses over the steps taken, by their names."""
        return dict(zip(LOSSES, (self._sums / self._taken).tolist(), strict=True))
