"""Modules of one shape as one: their parameters are rows of common tensors [N, ...].

Every module keeps its own parameters, which are views of its rows: what one learns is seen by both
sides and by nobody else. Computing with the rows at once is faster than with one after the other,
because small matrix products are mostly overhead.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def stack_parameters(modules: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Common tensors [N, ...] by name; the parameters of the modules become views of their rows."""
    stacked = {}
    for name, first in modules[0].named_parameters():
        rows = [module.get_parameter(name) for module in modules]
        common = torch.stack([row.detach() for row in rows])
        for number, row in enumerate(rows):
            row.data = common[number]
        stacked[name] = common.requires_grad_(first.requires_grad)
    return stacked


def stacked_linear(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[N, B, outputs] of `inputs` [N, B, inputs], weight [N, outputs, inputs], bias [N, outputs]."""
    return torch.baddbmm(bias.unsqueeze(1), inputs, weight.transpose(1, 2))


def clip_each(gradients: Sequence[Tensor], max_norm: float) -> Tensor:
    """Scale the gradients [N, ...] of each module to a norm of at most `max_norm`; [N] the norms.

    As `clip_grad_norm_` does for one module; rows that are not finite stay as they are.
    """
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
    scales = (max_norm / (norms + 1e-6)).clamp(max=1.0).nan_to_num(nan=1.0)
    for gradient in gradients:
        gradient.mul_(scales.view(-1, *(1,) * (gradient.dim() - 1)))
    return norms


class StackedOptimizer:
    """One step for the modules that are due, of the optimizers that each module has.

    The moments stay in those optimizers: they are theirs, here they are only stepped together.
    """

    def __init__(
        self, modules: Sequence[nn.Module], optimizers: Sequence[torch.optim.Adam]
    ) -> None:
        self._rows = [list(module.parameters()) for module in modules]
        settings = optimizers[0].param_groups[0]
        everything = [parameter for row in self._rows for parameter in row]
        self._optimizer = torch.optim.Adam(
            everything, lr=settings["lr"], betas=settings["betas"], eps=settings["eps"], fused=True
        )
        for row, own in zip(self._rows, optimizers, strict=True):
            for parameter in row:
                slots = own.state[parameter] = own.state.get(parameter) or _first_slots(parameter)
                self._optimizer.state[parameter] = slots

    def step(self, gradients: Sequence[Tensor], due: Sequence[int]) -> None:
        """Move the modules numbered `due` by their rows of the gradients [len(due), ...]."""
        for place, number in enumerate(due):
            for parameter, gradient in zip(self._rows[number], gradients, strict=True):
                parameter.grad = gradient[place]
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)


def _first_slots(parameter: nn.Parameter) -> dict[str, Tensor]:
    """What Adam keeps of a parameter before its first step."""
    return {
        "step": torch.zeros(()),
        "exp_avg": torch.zeros_like(parameter),
        "exp_avg_sq": torch.zeros_like(parameter),
    }


class RowBackup:
    """A module's parameters and moments as they are now, to go back to."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._tensors = [
            tensor
            for parameter in module.parameters()
            for tensor in (parameter.data, *optimizer.state[parameter].values())
        ]
        self._copies = [tensor.clone() for tensor in self._tensors]

    def restore(self) -> None:
        """Go back, in place."""
        for tensor, copy in zip(self._tensors, self._copies, strict=True):
            tensor.copy_(copy)
