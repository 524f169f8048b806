"""`PPOSteps`: the gradient steps of a PPO lesson on a CPU, see `ppo_gradients`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from keisei.core.adam_kernel import norm_of
from keisei.core.ppo_gradients import LOSSES, PPOGradients
from keisei.core.ppo_kernels import adam_move
from keisei.core.stacked_modules import NonFiniteGradientError, first_slots

Arrays = tuple[NDArray[np.float32], ...]


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
        self._parameters, self._optimizer = list(parameters), optimizer
        self._gradients, self._max_norm = gradients, max_norm
        self._weights = _flat(self._parameters)
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
        for count in self._counts:
            count[0] += 1
        adam, memory = self._optimizer.param_groups[0], (self._weights, *self._moments)
        settings = (adam["lr"], *adam["betas"], adam["eps"])
        adam_move(*memory, self._gradients.gradient, scale, int(self._counts[0][0]), *settings)

    def means(self) -> dict[str, float]:
        """Of the losses over the steps taken, by their names."""
        return dict(zip(LOSSES, (self._sums / self._taken).tolist(), strict=True))

    @cached_property
    def _slots(self) -> list[dict[str, Tensor]]:
        """What Adam keeps of each parameter; made when the first step is sure to be taken."""
        state = self._optimizer.state
        for parameter in self._parameters:
            if not state.get(parameter):
                state[parameter] = first_slots(parameter)
        return [state[parameter] for parameter in self._parameters]

    @cached_property
    def _counts(self) -> Arrays:
        """The steps that Adam has counted, [1] of each parameter."""
        return _flat([slot["step"] for slot in self._slots])

    @cached_property
    def _moments(self) -> tuple[Arrays, Arrays]:
        first, second = ([slot[name] for slot in self._slots] for name in ("exp_avg", "exp_avg_sq"))
        return _flat(first), _flat(second)


def _flat(tensors: Sequence[Tensor]) -> Arrays:
    return tuple(tensor.detach().view(-1).numpy() for tensor in tensors)
