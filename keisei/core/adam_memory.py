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

    `Arrays` have a flat array for each parameter, in their order. To make them takes some fifty
    calls of torch, each of which lets another thread have the interpreter: keep this as long as it
    `is_current`.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Adam) -> None:
        self._parameters, self._optimizer = list(parameters), optimizer
        self.weights = flat_arrays(self._parameters)
        self.shapes = [tuple(parameter.shape) for parameter in self._parameters]
        self._made_at = self._addresses()

    def is_current(self) -> bool:
        """Whether all of it still lies where it did."""
        return self._addresses() == self._made_at

    def _addresses(self) -> list[int]:
        """Where all that the optimizer works on lies, the moments if it keeps some."""
        state, addresses = self._optimizer.state, []
        for parameter in self._parameters:
            addresses.append(parameter.data_ptr())
            addresses += [tensor.data_ptr() for tensor in state.get(parameter, {}).values()]
        return addresses

    @property
    def settings(self) -> tuple[float, float, float, float]:
        """Learning rate, both betas and epsilon."""
        adam = self._optimizer.param_groups[0]
        return (adam["lr"], *adam["betas"], adam["eps"])

    @property
    def count(self) -> int:
        """Of the steps that were taken."""
        return int(self._counts[0][0])

    def count_steps(self, steps: int = 1) -> int:
        """Count steps that are sure to be taken; how many there are with them.

        With the first of them the optimizer keeps the moments.
        """
        if not self.count:
            self._optimizer.state.update(zip(self._parameters, self._slots, strict=True))
            self._made_at = self._addresses()
        for count in self._counts:
            count[0] += steps
        return self.count

    @cached_property
    def moments(self) -> tuple[Arrays, Arrays]:
        """The first and the second."""
        first, second = ([slot[name] for slot in self._slots] for name in ("exp_avg", "exp_avg_sq"))
        return flat_arrays(first), flat_arrays(second)

    @cached_property
    def _counts(self) -> Arrays:
        return flat_arrays([slot["step"] for slot in self._slots])

    @cached_property
    def _slots(self) -> list[dict[str, Tensor]]:
        """What the optimizer keeps of each parameter, or will keep from the first step on."""
        state = self._optimizer.state
        return [state.get(parameter) or _first_slots(parameter) for parameter in self._parameters]


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
