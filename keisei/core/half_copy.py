"""`HalfCopy`: a network on a CPU that computes in bfloat16."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor

from keisei.core.res_tower import ActorCriticResTower


class HalfCopy:
    """Computes with a copy of a network whose weights are cast at once, before every pass.

    The same bits as with `torch.autocast`, which casts each tensor of weights by itself, and its
    gradient back: with small networks that is a twentieth of the time of learning and a tenth of
    that of playing. The weights may change at any time between two passes, by other processes too.
    """

    def __init__(self, model: ActorCriticResTower) -> None:
        self._copy = deepcopy(model).to(torch.bfloat16)
        self._weights: list[Tensor] = list(model.parameters())
        self._cast: list[Tensor] = list(self._copy.parameters())

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """What the network says; differentiable, by `backward`."""
        planes, values = self._planes_and_values(positions)
        return planes.flatten(1).float(), values

    def of_moves(self, positions: Tensor, legal: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """The same with the logits as they are computed, of all moves and in bfloat16."""
        return self._planes_and_values(positions)

    def _planes_and_values(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            torch._foreach_copy_(self._cast, self._weights)
        return self._copy.planes_and_values(positions)

    def backward(self, loss: Tensor) -> None:
        """Set the gradients of the network's own weights, in place where there are some."""
        gradients = torch.autograd.grad(loss, self._cast)
        for weight in self._weights:
            if weight.grad is None:
                weight.grad = torch.empty_like(weight)
        torch._foreach_copy_(gradients_there(self._weights), gradients)


def gradients_there(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of parameters that all have one."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
