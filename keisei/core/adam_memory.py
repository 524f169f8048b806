"""`AdamMemory`: weights and moments of a network as kernels take them, and the count of steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Arrays = tuple[NDArray[np.float32], ...]


class AdamMemory:
    """The memory of an optimizer and its parameters, as it lies when this is made.

    `Arrays` have a flat array for each parameter, in their order.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Adam) -> None:
        self._parameters, self._optimizer = list(parameters), optimizer
        self.weights = flat_arrays(self._parameters)

    @property
    def settings(self) -> tuple[float, float, float, float]:
        """Learning rate, both betas and epsilon."""
        adam = self._optimizer.param_groups[0]
        return (adam["lr"], *adam["betas"], adam["eps"])

    def count_step(self) -> int:
        """Count a step that is about to be taken; its number, the first is 1."""
        for count in self._counts:
            count[0] += 1
        return int(self._counts[0][0])

    @cached_property
    def moments(self) -> tuple[Arrays, Arrays]:
        """The first and the second; made when the first step is sure to be taken."""
        first, second = ([slot[name] for slot in self._slots] for name in ("exp_avg", "exp_avg_sq"))
        return flat_arrays(first), flat_arrays(second)

    @cached_property
    def _counts(self) -> Arrays:
        return flat_arrays([slot["step"] for slot in self._slots])

    @cached_property
    def _slots(self) -> list[dict[str, Tensor]]:
        """What the optimizer keeps of each parameter."""
        state = self._optimizer.state
        for parameter in self._parameters:
            if not state.get(parameter):
                state[parameter] = _first_slots(parameter)
        return [state[parameter] for parameter in self._parameters]


def flat_arrays(tensors: Sequence[Tensor]) -> Arrays:
    """The memory of each tensor, [N]."""
    return tuple(tensor.detach().view(-1).numpy() for tensor in tensors)


def _first_slots(parameter: nn.Parameter) -> dict[str, Tensor]:
    """What Adam keeps of a parameter before its first step."""
    return {
        "step": torch.zeros((), device=parameter.device),
        "exp_avg": torch.zeros_like(parameter),
        "exp_avg_sq": torch.zeros_like(parameter),
    }
