"""`IQNSteps`: the gradient steps of an IQN model on a CPU, see `iqn_gradients`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from keisei.core.adam_kernel import adam_step, norm_of
from keisei.core.iqn_arrays import Array, NetworkArrays, arrays_of
from keisei.core.iqn_gradients import IQNGradients
from keisei.core.iqn_network import IQNetwork
from keisei.core.replay_buffer import Batch
from keisei.core.stacked_modules import NonFiniteGradientError, first_slots


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
        self._parameters, self._optimizer = list(network.parameters()), optimizer
        self._weights, self._targets = _flat(self._parameters), _flat([*target.parameters()])
        self._max_norm, self._tau = max_norm, tau

    @cached_property
    def _slots(self) -> list[dict[str, Tensor]]:
        """What Adam keeps of each parameter; made when the first step is sure to be taken."""
        state = self._optimizer.state
        for parameter in self._parameters:
            if not state.get(parameter):
                state[parameter] = first_slots(parameter)
        return [state[parameter] for parameter in self._parameters]

    @cached_property
    def _counts(self) -> tuple[Array, ...]:
        """The steps that Adam has counted, [1] of each parameter."""
        return _flat([slot["step"] for slot in self._slots])

    @cached_property
    def _moments(self) -> tuple[tuple[Array, ...], ...]:
        names = ("exp_avg", "exp_avg_sq")
        return tuple(_flat([slot[name] for slot in self._slots]) for name in names)

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
        for count in self._counts:
            count[0] += 1
        adam, gradient = self._optimizer.param_groups[0], self._gradients.gradient
        settings = (adam["lr"], *adam["betas"], adam["eps"], self._tau)
        memory = (self._weights, *self._moments, self._targets)
        adam_step(*memory, gradient, scale, int(self._counts[0][0]), *settings)


def _flat(tensors: Sequence[Tensor]) -> tuple[Array, ...]:
    return arrays_of([tensor.detach().view(-1) for tensor in tensors])
