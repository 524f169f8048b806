"""`IQNSteps`: the gradient steps of an IQN model on a CPU, see `iqn_gradients`."""

from __future__ import annotations

import math

import torch

from keisei.core.adam_kernel import adam_step, norm_of
from keisei.core.adam_memory import AdamMemory, flat_arrays
from keisei.core.iqn_arrays import NetworkArrays
from keisei.core.iqn_gradients import IQNGradients
from keisei.core.iqn_network import IQNetwork
from keisei.core.replay_buffer import Batch
from keisei.core.stacked_modules import NonFiniteGradientError


class IQNSteps:
    """Steps on batches of one size, of a network whose target follows it by the share tau.

    It works on the memory of weights and moments as they are when it is made, and goes on with the
    optimizer's own moments.
    """

    def __init__(
        self,
        network: IQNetwork,
        target: IQNetwork,
        optimizer: torch.optim.Adam,
        generator: torch.Generator,
        *,
        batch_size: int,
        quantiles: int,
        max_norm: float,
        tau: float,
    ) -> None:
        self._gradients = IQNGradients(network, batch_size=batch_size, quantiles=quantiles)
        self._generator = generator
        self._networks = NetworkArrays(network), NetworkArrays(target)
        self._memory = AdamMemory([*network.parameters()], optimizer)
        self._targets = flat_arrays([*target.parameters()])
        self._max_norm, self._tau = max_norm, tau

    def take(self, batch: Batch) -> tuple[float, float]:
        """Take one step; its loss and its gradient's norm.

        NonFiniteGradientError if the norm is not finite: nothing has changed then.
        """
        loss = self._gradients.loss(*self._networks, batch, self._generator)
        norm = norm_of(self._gradients.gradient)
        if not math.isfinite(norm):
            raise NonFiniteGradientError(f"the norm of the gradient is {norm}")
        self._move(min(1.0, self._max_norm / (norm + 1e-6)))
        return loss, norm

    def _move(self, scale: float) -> None:
        """Take Adam's step with the gradient times `scale`, and let the target follow."""
        memory = self._memory
        count, arrays = memory.count_steps(), (memory.weights, *memory.moments, self._targets)
        adam_step(*arrays, self._gradients.gradient, scale, count, *memory.settings, self._tau)
